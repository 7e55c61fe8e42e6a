// Package terminal asks the person at the terminal about approvals while a command uses the terminal: exec --ask.
//
// Run starts three processes. The outer one, which calls Run, has the person's terminal, and is outside every session. It makes a
// pseudoterminal, and relays what is typed and written. The monitor leads the session of the pseudoterminal, so that its child can be
// stopped: the kernel stops no process whose group has lost its parent. The inner one is the same program again with the same
// arguments, which serves the session's calls and reports its socket by Announce.
//
//	person's terminal ── outer ── pseudoterminal ── monitor ── inner ── the command
//
// The command is the attacker. While a prompt stands, nothing that the command writes reaches the terminal. The prompt first ends every
// mode in which the command may have left the terminal, and restores these modes afterwards. What the terminal sends isn't always typed:
// the command can make it answer queries, and a person types for the command until the prompt is seen. So a decision is one key, after
// half a second without any input and followed by no other input at once; Enter is none. It remains possible to draw something that
// looks like a prompt. It decides nothing, and the real prompt shows what it decides about.
package terminal
