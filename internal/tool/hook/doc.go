// Package hook runs the hooks of a policy: programs and HTTP endpoints that get each tool call before it runs, and its result after.
//
// A hook is the user's program. It runs outside the session, with the user's rights, so that the call's author must not be able to choose what
// it does: it gets the call as JSON on its input alone. Its arguments, its folder (that of the policy's file) and its environment (Runner.Env,
// all that toolguard itself was started with) are never the call's. A program without a slash in its name is searched for in the absolute folders
// of PATH.
//
// A session may be able to write a hook's program, as the policy's file is often in the workspace. Seal finds that out before each run. What the
// program loads in turn has to be where no session can write.
//
// # Before a call
//
// Any doubt is a block: a status other than 0 or 200, a signal, no answer, one that isn't exactly one of the known objects, more than 1 MiB, a
// program that can't be started, the deadline. Before always returns by the sum of the deadlines, and a short while for ending processes.
//
// The answers are {}, {"arguments":{…}}, {"block":true,"reason":"…"} and {"ask":true,"reason":"…"}; an ask may come with arguments. A key of the
// arguments replaces the call's; a hook can't remove one. Arguments that a hook has changed go through the gate before anything else sees
// them. After a block, or a denial by the gate, no further hook runs. An ask stays in effect, whatever later hooks answer.
//
// # Processes
//
// Each program has a session and a process group of its own, without a terminal. When it has ended, or at its deadline, the rest of its group is
// killed. A process that left the group lives on, but nothing waits for it: if it keeps the output open, this is a failure.
//
// # Endpoints
//
// An address is called by toolguard-ship, because toolguard itself doesn't link HTTP and TLS. Redirects aren't followed. Without TLS, only this
// machine is called.
package hook
