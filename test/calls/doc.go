// Package calls tests the life of a tool call, and approvals, from outside: the real toolguard exec under Landlock, as root and as an ordinary
// user, with real clients. In the session that's this test binary, which sends what the test orders over TOOLGUARD_SOCKET; outside it's the
// same program as an unconfined process of the session's user, curl, and Python.
//
// Each denial has its event, and a positive control.
package calls
