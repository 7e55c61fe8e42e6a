// Package forward sends the requests about calls and approvals that toolguardd gets to the toolguard of the session that they are for, over
// connections that it has opened. toolguardd, which is root, reads nothing of them: engine, hooks and state are the user's.
//
// Each request names its client in fields that the client can't set. A session's confined clients and its others have requests of their own, and
// so has each quota key; so a flood by one takes nothing from the others.
package forward
