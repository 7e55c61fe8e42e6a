// Package shell finds the commands in the text of a shell, without running it.
//
// Analyze parses a script with mvdan.cc/sh in exactly the language of one dialect, and follows its statements in order. It returns each
// program that the script would execute, with its words as far as they're known, the variables that it gets and the directory in which
// it runs; code that a shell would execute in turn (eval, trap); the files and addresses of redirections; and every word whose effect
// isn't known before the script runs. Builtin commands that run nothing are in no effect: neither this package nor a kernel's command
// rule sees them. What isn't reached (after exit, or after false &&) is analysed as if it ran.
//
// # Words
//
// A word is known if its value is certain: quotes and backslashes removed, braces expanded, and the variables replaced that the script
// itself assigned on each way to the word. HOME isn't known here: a word that begins with ~, ~/ or $HOME has its Home set. An
// expansion without quotes may become several words or none (Many), because shells split it and match it against files.
//
// # Directories
//
// After "cd x && y", y runs in x. After "cd x; y", y runs in x or, if cd failed, where the shell was: y is in the effects once for each.
// A call's Dir isn't known after cd to a word that isn't known, in loops and functions that change the directory, and beyond four
// possible ones. As in shells, .. removes the name before it (cd -L). Where the shell only is because a cd failed, "cd .." leads to a
// directory that isn't known: the text doesn't mean to leave the folder in which it starts.
//
// # Variables
//
// A call's Env is what the script certainly or possibly assigned: exported variables, and those with names that may have come with the
// environment (in capitals, or such as http_proxy), because their assignment changes what programs get. A value that depends on the way
// to the call isn't known. What a loop, a function or an expansion assigns counts from the script's beginning.
//
// # Threats
//
// A model wrote the text, perhaps on behalf of the text of a web page, and knows this source. It gains if the shell runs something that
// isn't in the effects. Where this package can't be certain, it's unclear and never silent:
//
//   - The parser disagrees with shells in known places (comments that end in a backslash, quotes within quotes, backquotes,
//     here-documents, carriage returns, single-letter expansions of zsh): scan.go and heredoc.go find these and make them unclear. The
//     parser's panics are caught, and what it recurses on is limited before it starts.
//   - Names that a shell resolves by its own state (aliases, functions, PATH, hashed commands), and options that change the parsing.
//   - A loop or a function assigns what a later line names. A name that's assigned must be in the text, not expanded.
//   - A redirection may fail: then its command did nothing. bash expands the target of >& twice.
//   - After an error in an expansion, bash continues with the next line (discard.go).
//   - Arithmetic evaluates the values of variables, with the commands in their subscripts: a value must be a number. test -v, printf -v,
//     read, unset and declare evaluate subscripts too, so that their operands must be known names.
//   - bash runs /dev/tcp, functions from the environment and BASH_ENV; zsh runs code in glob qualifiers and expansion flags.
//
// TestDifferential runs generated scripts in bash, dash and zsh and requires that everything they executed is in the effects.
package shell
