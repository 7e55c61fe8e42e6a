// Package mac has the tests of sessions on macOS through the real binaries: attacks, each with a positive control, the life of a session, and everyday
// commands. They run on a Mac alone (scripts/mac). What can be tested of the attacks elsewhere is: that their policies are enforceable by the profile
// and mean what the attack needs, and that the attack works without toolguard.
package mac
