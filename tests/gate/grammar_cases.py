"""Grammars that must pass and grammars that must not, in every spelling; shared by the tests that have the engine."""

from __future__ import annotations

import json
from typing import Any

STRING = {"type": "string"}
ADD = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
TREE = {
    "type": "object",
    "properties": {"v": STRING, "c": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["v"],
}
LEAF = {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}
LIST = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"v": STRING, "next": LEAF},
                                             "required": ["v", "next"]}}}  # fmt: skip
FORMATS = ("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "json-pointer",
           "relative-json-pointer", "time", "uri", "uri-reference", "uri-template", "uuid")  # fmt: skip


def needs(part: Any, **more: Any) -> dict[str, Any]:
    """An object that must have `a`."""
    return {"type": "object", "properties": {"a": part}, "required": ["a"], **more}


def nested(levels: int) -> dict[str, Any]:
    """Objects in objects."""
    part: dict[str, Any] = STRING
    for _ in range(levels):
        part = needs(part)
    return part


def many(count: int) -> dict[str, Any]:
    """An object of so many optional members."""
    return {"type": "object", "properties": {f"p{number}": STRING for number in range(count)}}


def tag(schema: Any) -> dict[str, Any]:
    """A structural tag around a schema, in the old spelling."""
    return {"structures": [{"begin": "<f>", "schema": schema, "end": "</f>"}], "triggers": ["<f"]}


def tag_format(content: Any) -> dict[str, Any]:
    """The new spelling."""
    tags = [{"begin": "<f>", "content": content, "end": "</f>"}]
    return {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f"], "tags": tags}}


SERVED: dict[str, list[Any]] = {
    "json_schema": [
        {"type": "object"}, {}, {"type": "array"}, ADD, TREE, LIST, many(60), nested(20),
        {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, STRING]},
        {"anyOf": [{"$ref": "#"}, STRING]},
        {"anyOf": [ADD, needs(STRING)]},
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "maxItems": 5}, "minItems": 1},
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2, "maxProperties": 7},
        {"type": "object", "patternProperties": {"^a[0-9]+$": STRING}},
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}},
        needs({"type": "integer", "minimum": -5, "maximum": 100000}),
        needs({"type": "string", "maxLength": 1000}), needs({"type": ["string", "null"]}),
        needs({"type": "string", "pattern": r"^(\d{3}-)?\d{4}$"}), needs({"enum": [f"word {n}" for n in range(1000)]}),
        needs(STRING, properties={"a": STRING, "pattern": STRING, "$ref": STRING, "default": STRING}),
        *({"type": "string", "format": name} for name in FORMATS),
        *({"type": "array", "items": {"type": "string", "format": name}} for name in FORMATS if "pointer" not in name),
    ],
    "regex": ["[ab]{3}", r"\d{3}-\d{4}", r"(\d+\.)*\d+", "([a-z]+(-[a-z]+)*)", "(?:[A-Z][a-z]+ )+", ".*foo", ".*",
              r"https?://[^\s/]+(/[^\s/]*)*", r"[\w.]+@[\w.]+", "(yes|no|maybe)", r"^\s*\w+\s*$", "(a|b)*c", "(ab|cd)+",
              r"([0-9]{1,3}\.){3}[0-9]{1,3}", r"(\w+\s)*\w+", r'"([^"\\]|\\.)*"', r"(-?\d+,)*-?\d+", "a{1,10000}",
              "(ab|abc)*", r"([^,\n]*,)*", r"([^\n]*\n)+", "([a-z]*abc;)*",
              "(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?[.])+com"],
    "ebnf": [
        'root ::= "a" | "b"',
        'root ::= expr\nexpr ::= term (("+" | "-") term)*\nterm ::= [0-9]+ | "(" expr ")"',
        'root ::= root "+" t | t\nt ::= [0-9]+',
        'root ::= "[" (item ("," item)*)? "]"\nitem ::= root | [a-z]+',
        'root ::= ("- " [^\\n]+ "\\n")+',
    ],
    "structural_tag": [tag(ADD), tag(TREE), tag_format({"type": "json_schema", "json_schema": ADD}),
                       tag_format({"type": "regex", "pattern": "[a-z]+"})],
}  # fmt: skip

ENDLESS, TWO_WAYS, ENDS = "no finite text fits", "in more than one way", "at both of its ends"
REFUSED: dict[str, list[tuple[Any, str]]] = {
    "json_schema": [
        ({"$ref": "#"}, ENDLESS),
        ({"type": "object", "allOf": [{"$ref": "#"}]}, ENDLESS),
        ({"anyOf": [{"$ref": "#"}]}, ENDLESS),
        ({"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}, ENDLESS),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, ENDLESS),
        ({"$ref": "#/definitions/a",
          "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}}, ENDLESS),
        (needs({"$ref": "#"}), ENDLESS),
        (needs({"anyOf": [{"$ref": "#"}, needs({"$ref": "#"})]}), ENDLESS),
        (needs({"$ref": "#/properties/a"}), ENDLESS),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, ENDLESS),
        ({"type": "array", "prefixItems": [{"$ref": "#"}], "minItems": 1}, ENDLESS),
        (needs(STRING, additionalProperties={"$ref": "#"}, minProperties=2), ENDLESS),
        (needs({"$dynamicRef": "#n"}, **{"$dynamicAnchor": "n"}), "$dynamicRef is not served"),
        (needs({"$recursiveRef": "#"}), "$recursiveRef is not served"),
        (needs({"$ref": "http://example.org/self"}, **{"$id": "http://example.org/self"}), "leads out of the schema"),
        (needs({"$ref": "x\nSIGQUIT received."}), "leads out of the schema"),
        (nested(300), "levels deep"),
        (needs({"enum": [f"w{number}" for number in range(100_000)]}), "bytes, expected at most"),
        (many(2000), "characters of grammar rules"),
        ({**many(300), "minProperties": 100, "maxProperties": 200}, "characters of grammar rules"),
        (needs({"type": "string", "pattern": "^(a+)+$"}), TWO_WAYS),
        (needs({"type": "string", "pattern": "^[\u4e00-\u9fff]{1,5000}$"}), "written out"),
        (needs({"type": "string", "pattern": "^((a{1,99}b){1,99}c){1,99}$"}), "written out"),
        (needs(STRING, properties={"default": {"type": "string", "pattern": "(a*)*"}}, required=["default"]), TWO_WAYS),
        ({"type": "object", "patternProperties": {"^(a|b*)*$": STRING}}, TWO_WAYS),
        # the grammar engine lets a pointer hold quotes and commas, so a list of them has no clear ends
        ({"type": "array", "items": {"type": "string", "format": "json-pointer"}}, TWO_WAYS),
        ({"type": "object", "properties": 1}, "properties must be an object"),
        (needs(STRING, **{"not": {"$ref": "#"}}), "not"),
    ],
    "regex": [
        ("((((a|b|c|d|[^~])*)*)*)*~~$", TWO_WAYS), ("(a+)+", TWO_WAYS), ("(a*)*b", TWO_WAYS), (r"(\w+\s?)*", TWO_WAYS),
        ("(((a|b){0,99}){0,99}){0,99}", TWO_WAYS), ("(((a*){0,99}){0,99}){0,99}", TWO_WAYS),
        ("(a?){1,100000}", TWO_WAYS), ("((a{1,9}){1,9}b)+", TWO_WAYS), ("(a*b?)*", TWO_WAYS), ("(.*a)+", TWO_WAYS),
        ("(.{0,99}a){1,99}", TWO_WAYS), ("(.*a.*b){1,50}", TWO_WAYS), ("(a|aa){0,999}", TWO_WAYS),
        ("((.*a)+b)+", TWO_WAYS), ("(.*\\n)+", TWO_WAYS), (r"[^\s\S]", ENDLESS),
        ("|".join(f"w{number}" for number in range(10_000)), "characters of grammar rules"),
        ("|".join(f"w{number}" for number in range(100_000)), "bytes, expected at most"),
        ("(?=a)b", "not supported"), ("(", "failed to compile"), ("a\0b", "NUL"),
    ],
    "ebnf": [
        ("root ::= root", ENDLESS), ("root ::= a\na ::= b\nb ::= a", ENDLESS), ('root ::= root "a"', ENDLESS),
        ('root ::= "a" root', ENDLESS), ('root ::= "a" b\nb ::= "c" root', ENDLESS),
        ('root ::= root root | "a"', ENDS), ('root ::= e\ne ::= e "+" e | [0-9]', ENDS), ('root ::= ("a"*)*', TWO_WAYS),
        ('root ::= root? root? "a"?', TWO_WAYS), ('root ::= "a" root root | ""', TWO_WAYS),
        ('root ::= (x y z)*\nx ::= "a"* \ny ::= "a"* x* z*\nz ::= "a"* x* y*', TWO_WAYS),
        ("root ::= (", "failed to compile"),
    ],
    "structural_tag": [
        (tag(needs({"$ref": "#"})), ENDLESS),
        (tag_format({"type": "regex", "pattern": "(a*)*"}), TWO_WAYS),
        (tag_format({"type": "grammar", "grammar": 'root ::= root root | "a"'}), ENDS),
        (tag_format({"type": "json_schema", "json_schema": needs({"$recursiveRef": "#"})}), "is not served"),
        ({"nothing": 1}, "failed to compile"),
    ],
}  # fmt: skip


def text(field: str, case: Any) -> str:
    """A case as it stands in the request."""
    return case if isinstance(case, str) else json.dumps(case)
