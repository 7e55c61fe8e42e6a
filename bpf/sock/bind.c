/* SPDX-License-Identifier: Apache-2.0 */
/* Binding to an address. */

#define TCP_CLOSE 7 /* neither connected nor listening */

/* bound records that a socket is bound and not connected; the hook runs with the socket's lock held. If there's no memory to record
 * it, its accepted connections count as outgoing ones, which are denied sooner. */
static __always_inline int bound(struct bpf_sock_addr *ctx)
{
	struct peer *p;

	if (ctx->protocol != IPPROTO_TCP || ctx->sk->state != TCP_CLOSE)
		return 1;
	p = bpf_sk_storage_get(&peers, ctx->sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (p)
		p->waits = 1;
	return 1;
}

/* taken reports whether a process outside the session already listens at an address: a session that may listen at any port must not
 * come between that process and its clients (SO_REUSEPORT). */
static __always_inline bool taken(struct bpf_sock_addr *ctx, struct session *s, const struct endpoint *at)
{
	struct endpoint nowhere = {};

	return s->own && ctx->protocol == IPPROTO_TCP && server(ctx, &nowhere, at) == SERVER_OTHERS;
}

/* bind decides about listening at an address. A bind to port 0 is always allowed: clients do so, and packet.c denies what arrives. */
static __always_inline int bind(struct bpf_sock_addr *ctx, const struct endpoint *at)
{
	struct session *s = session();
	u32 kind = kind_of(ctx), why = WHY_POLICY;
	struct question q = { .kind = kind | KIND_LISTEN, .to = *at };

	if (!s)
		return deny_task(NULL);
	if (!at->port || (ctx->protocol != IPPROTO_TCP && ctx->protocol != IPPROTO_UDP && s->free))
		return bound(ctx);
	u32 action = decide(&q);
	if (at->port == egress_port(s, kind, true) || at->port == egress_port(s, kind, false))
		why = WHY_EGRESS;
	else if (action == DIRECT && !taken(ctx, s, at))
		return bound(ctx);
	else if (action == DIRECT)
		why = WHY_TAKEN;
	struct denial r = { .op = OP_BIND, .why = why, .protocol = ctx->protocol, .kind = ctx->type, .by = q.by, .at = *at };
	deny_task(&r);
	if (why == WHY_TAKEN)
		bpf_set_retval(-EADDRINUSE); /* the kernel's error for a port that isn't shared: programs then try another one */
	return 0;
}

/* inet_bind_sk */
SEC("cgroup/bind4")
int net_bind4(struct bpf_sock_addr *ctx)
{
	struct endpoint at = ipv4(ctx->user_ip4, ctx->user_port);

	return bind(ctx, &at);
}

/* inet6_bind_sk */
SEC("cgroup/bind6")
int net_bind6(struct bpf_sock_addr *ctx)
{
	struct endpoint at = read6(ctx);

	return bind(ctx, &at);
}
