"""Standard input, a zstd stream with a window of up to 128 MB, to standard output."""

import sys

import zstandard

reader = zstandard.ZstdDecompressor(max_window_size=1 << 27)
reader.copy_stream(sys.stdin.buffer, sys.stdout.buffer, read_size=1 << 20, write_size=1 << 20)
