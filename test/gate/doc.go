// Package gate tests toolguard gate from outside: the real program, on tool calls with their right answers (testdata/*.txt), on what
// developers' agents run every day (testdata/everyday.txt), against check, against the kernel, and on input that is no call.
//
// testdata/*.txt has policies and rows:
//
//	== policy NAME            TOML follows; the file is NAME.toml
//	== calls NAME [FLAG...]   rows follow, judged under that policy; a flag VARIABLE=VALUE is an environment variable
//	DECISION [REASON] [cap=CAPABILITY] [path=PATH] ["TEXT"...] | TOOL | ARGUMENTS [| MORE]
//	DECISION … | $ COMMAND
//
// REASON escape is workspace_escape or outside_workspace. DECISION is allow, deny, ask or !allow: where both of the others are right. One of the TEXTs must be in the message; a row with ask has at
// least one, the word that was not understood. ARGUMENTS and MORE, further keys of the call, are JSON. "$ COMMAND" is a call of Bash, ↵ in it
// is the end of a line, ␠ a blank at its end. @WS, @OUT, @HOME, @BIN and @POLICY are the folders of the scene: scene_test.go.
package gate
