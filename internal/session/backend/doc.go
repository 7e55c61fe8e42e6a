// Package backend selects the mechanisms that enforce a policy on this machine, and reports its enforceability.
//
// A Backend is data: its name, its stated gaps, its rows of the enforceability report, and the process that makes the session in the
// kernel. Package session opens it. "auto" selects the best available backend; a named backend is never replaced by another one.
//
// The report has a row for each rule: enforced, partly, or not enforceable, with the reason. A row that is not enforced prevents the
// start, unless the user or the policy allows it.
//
// toolguardd's state is requested once for each start. Only /etc/toolguard/exec.toml, which only root can write, can require toolguardd
// for all users.
package backend
