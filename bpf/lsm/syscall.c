/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls. Filters deny them (internal/seccomp), and the kernel's records of that are for root alone, and cost the whole machine
 * something. So what a session's filters deny is reported through its ring as well.
 */

/* audit_seccomp: __seccomp_filter, where a filter that asks for it has denied a call, or ends the process with a signal. */
SEC("fentry/audit_seccomp")
int BPF_PROG(toolguard_audit_seccomp, unsigned long call, long signal, int action)
{
	struct label *l = labelled();
	struct denial d = { .op = OP_CALL, .why = WHY_ALWAYS, .detail = call, .error = -signal };

	return l ? deny(l, &d) : unconfined(0);
}
