// Package constraint decides whether a call of a tool may run after those that have run before it in the same invocation of an agent:
// forbidden, max_invocations and only_after. It is pure; a Store keeps the histories of invocations.
//
// A call counts for max_invocations when it's allowed to run, whether it then ends or not. A call that is asked about counts, too,
// because the host runs it after an answer that toolguard doesn't see. A tool has met only_after when a call of it has ended without an
// error.
//
// # Ids
//
// While a call is open, a call with the same id, tool and arguments is that call, asked about again: it's not counted twice. With another
// tool or other arguments it's rejected, so that a host which gives each call the same id can't escape the count. When a call has ended,
// its id may be used for a new one, which counts. A call without an id is counted, and can't end. The oldest of more than 256 open calls
// is no longer known: it can't end, and counts again.
//
// # Threats
//
// The model chooses tools and arguments. A host chooses ids and invocations, and reports how calls end: a host that lies, or doesn't ask,
// is bound by the grants of its policy alone.
package constraint
