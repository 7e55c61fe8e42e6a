/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that a session's seccomp filters deny (internal/seccomp). The kernel's audit records of them are for root only, and
 * audit slows the whole machine down. So the session's ring reports these denials, too.
 */

/* audit_seccomp: __seccomp_filter, where a filter with the log flag has denied a call, or ends the process with a signal. */
SEC("fentry/audit_seccomp")
int BPF_PROG(toolguard_audit_seccomp, unsigned long call, long signal, int action)
{
	struct label *l = labelled();
	struct denial d = { .op = OP_CALL, .why = WHY_ALWAYS, .detail = call, .error = -signal };

	return l ? deny(l, &d) : unconfined(0);
}
