// Package tomltree reads a TOML file as a tree in which each key and value has its offset in the file, for errors that name a position,
// and as tokens, for editing and formatting a file without changing anything else in it.
//
// The syntax is parsed by go-toml's unstable package. What TOML demands of tables and keys together (no key twice, which tables may be
// extended) is checked here, so that an error has the position of both definitions.
//
// # Threats
//
// A file may be hostile. Its size, the nesting of its brackets and the length of dotted keys are bounded; it must be UTF-8 without NUL
// characters. A panic of the parser becomes an error.
package tomltree
