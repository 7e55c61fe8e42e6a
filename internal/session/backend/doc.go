// Package backend selects the mechanisms that enforce a policy on this machine, and reports how far they do.
//
// A Backend is data: its name, what it never sees (gaps), its rows of the enforceability report, and who makes the session in the
// kernel. Package session opens it. "auto" takes the best backend that is there; a backend that was named is never replaced by
// another one.
//
// The report has a row for each rule: enforced, partly, or not enforceable, with the reason. Every row that is not enforced, and that
// neither the user nor the policy allows to be so, keeps the command from starting.
//
// What toolguardd can do is asked once for each start. Only /etc/toolguard/exec.toml, which no one but root can write, can require
// toolguardd for everybody.
package backend
