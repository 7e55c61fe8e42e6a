// Package approval keeps the approvals that one process serves: those that wait for a person, and those that have just ended. It also
// writes the rule that "allow-always" stores.
//
// An approval is pending until the first of four: a person decides, its time ends, its requester withdraws it, or the process ends. A
// decision releases all who wait for it. An approval that has ended is known for another 15 seconds, for requesters that ask late; without
// a decision its decision stays null.
//
// The package makes no system calls: the clock, the timers, the source of random ids and the function that stores a decision are parameters.
//
// # Threats
//
// A confined process chooses what it asks, when, how often, and under which id. It must not get a decision that a person made about
// something else:
//
//   - An id means one request. With another one it's a conflict, even after the first has ended: a person may still look at the first.
//     The ids of confined requesters are remembered for a day, and when too many of them are, confined processes can ask no more.
//   - What isn't UTF-8 is rejected, since a person would see something else in its place.
//   - An approval that is asked for again has the decision of the first time: who runs what is allowed once counts the runs.
//
// It must not keep others from asking, either. It has its own limit, far below that of all requesters, and each approval's size is
// bounded. It sees nothing but its own requests, and never decides.
//
// A decision counts when it's stored: until then nobody who waits is released, and a decision that can't be stored isn't made.
package approval
