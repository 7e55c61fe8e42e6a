/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution. Each level of an execve (a script, then its interpreter) needs execute on its file and, if the policy declares
 * commands, must be one of them. An executable mapping needs execute, too: so ld.so loads a program or a library. exec_args.c checks
 * the arguments.
 */

#define PROT_EXEC 4
#define SIGKILL 9

/* command_record is the line of the record of the program that was just followed; 0: it has none. */
static __always_inline u32 command_record(struct label *l)
{
	u32 node = l->match[0].node;
	struct line *n;

	if (node == NO_NODE)
		return 0;
	n = line_of(l->walk.image, l->walk.header[H_NODES] + node / 4);
	return n ? NODE_COMMAND(n->w[(node & 3) * 4 + 3]) : 0;
}

/* The state of listed: each layer's rules about the program that was just followed. */
struct listing {
	struct label *l;
	u32 record, rules, argc, layer;
	bool first, conditional;
};

/* entry_step checks whether the j-th rule is the layer's, and whether it has conditions. */
static long entry_step(u32 j, void *ctx)
{
	struct listing *o = ctx;
	struct label *l = o->l;
	struct line *r = line_of(l->walk.image, o->record + 1 + j / 4);

	if (!r || r->w[(j & 3) * 4] != o->layer)
		return 0;
	l->listing.found = 1;
	l->match[0].layer = o->layer;
	l->match[0].hit = r->w[(j & 3) * 4 + 1];
	o->conditional |= r->w[(j & 3) * 4 + 2] != 0;
	return 0;
}

/* defer_args notes that the arguments are to be checked when the process has them; false: there's no space. */
static __always_inline bool defer_args(struct listing *o)
{
	struct label *l = o->l;
	u32 n = l->nexec;

	if (n >= MAX_EXEC)
		return false;
	l->nexec = n + 1;
	bounded(n, MAX_EXEC - 1);
	l->exec[n].record = o->record;
	l->exec[n].argc = o->argc;
	l->exec[n].layer = o->layer;
	l->exec[n].first = o->first;
	return true;
}

static long listing_step(u32 i, void *ctx)
{
	struct listing *o = ctx;
	struct label *l = o->l;

	if (i >= l->walk.header[H_NLAYERS])
		return 1;
	struct line *layer = line_of(l->walk.image, l->walk.header[H_LAYERS] + i / 4);
	if (!layer) {
		l->listing.denied = 1;
		return 1;
	}
	o->layer = i;
	l->listing.found = layer->w[(i & 3) * 4 + 3] != DENY;
	o->conditional = false;
	bpf_loop(o->rules, entry_step, o, 0);
	if (!l->listing.found) {
		l->match[0].layer = i;
		l->match[0].hit = NO_HIT;
		l->listing.denied = 1;
	} else if (o->conditional && !defer_args(o)) {
		l->listing.denied = 1;
	}
	return l->listing.denied != 0;
}

/* listed reports whether every layer that declares commands lists the program that was just followed, and notes the layers with
 * rules about its arguments. first: it's the file of the execve, not an interpreter. */
__noinline bool listed(struct label *l, u32 argc, bool first)
{
	if (!l)
		return false;
	struct listing o = { .l = l, .record = command_record(l), .argc = argc, .first = first };

	o.rules = rules_of(l, o.record);
	l->listing.denied = 0;
	bpf_loop(MAX_LAYERS, listing_step, &o, 0);
	return !l->listing.denied;
}

/* exchanged is the denial for an execve that began under a policy that has been replaced: its lists no longer exist. */
static __always_inline u32 exchanged(struct label *l)
{
	l->match[0].status = WALK_EXCHANGED;
	return WHY_UNRESOLVED;
}

/* executes decides about one level of an execve. */
static __always_inline int executes(struct label *l, struct linux_binprm *bprm)
{
	struct denial d = { .op = OP_EXECUTE, .need = CAP_EXECUTE, .error = EACCES, .paths = 1 };
	set_target(l, 0, bprm->file->f_path.mnt, bprm->file->f_path.dentry);
	d.why = decide(l, 0, CAP_EXECUTE);
	bool first = !l->nexec;
	if (!d.why && !first && l->generation != l->walk.header[H_GENERATION])
		d.why = exchanged(l);
	if (!d.why) {
		l->generation = l->walk.header[H_GENERATION];
		d.op = OP_COMMAND;
		bool whole = bprm->interp == bprm->filename;
		if (!listed(l, bprm->argc, whole)) {
			d.why = WHY_COMMAND;
		} else if (first && l->nexec) {
			if (whole)
				name_file(l, bprm);
			d.args = !expected(l, bprm->argc);
			d.why = d.args ? WHY_ARGS : 0;
			d.detail = l->args.misfiled;
		}
	}
	if (!d.why)
		return 0;
	deny(l, &d);
	return -EACCES;
}

/* only_checks reports whether it's execveat with AT_EXECVE_CHECK, which ends after security_bprm_creds_for_exec. */
static __always_inline bool only_checks(struct linux_binprm *bprm)
{
	struct linux_binprm___asks *asks = (void *)bprm;

	return bpf_core_field_exists(asks->is_check) && BPF_CORE_READ_BITFIELD(asks, is_check);
}

/* security_bprm_creds_for_exec: once for each execve, before its first level. AT_EXECVE_CHECK gets the decision about that level.
 * Arguments that are too long to check before the point of return aren't checked here. */
SEC("lsm/bprm_creds_for_exec")
int BPF_PROG(toolguard_bprm_creds_for_exec, struct linux_binprm *bprm)
{
	struct label *l = confined();
	int error = 0;

	if (!l)
		return unconfined(-EACCES);
	l->nexec = 0;
	if (only_checks(bprm)) {
		error = executes(l, bprm);
		l->nexec = 0;
	}
	return error;
}

/* security_bprm_check: search_binary_handler (exec_binprm), for each level before it's loaded. */
SEC("lsm/bprm_check_security")
int BPF_PROG(toolguard_bprm_check_security, struct linux_binprm *bprm)
{
	struct label *l = confined();

	return l ? executes(l, bprm) : unconfined(-EACCES);
}

/* emit_exec writes the event of a program; false if it failed. It uses only a CPU's first draft and half of the ring, and leaves the
 * rest to denials. (Several CPUs at once may use a little more than half.) */
static __always_inline bool emit_exec(struct label *l, struct session *s, u64 argv, u32 argc)
{
	struct writer w = { .c = &l->walk, .draft = acquire_draft(1) };
	struct denial d = { .op = OP_EXEC, .detail = argc };
	u32 key = s->ring;
	void *ring = bpf_map_lookup_elem(&rings, &key);
	bool emitted = false;

	if (!w.draft)
		return false;
	struct event *e = &w.draft->e;
	w.c->at = 0;
	e->first = write_path(&w, &l->target[0], &l->match[0]);
	l->args.at = argv;
	l->args.skip = argc < MAX_REPORTED_ARGS ? argc : MAX_REPORTED_ARGS;
	bpf_loop(MAX_REPORTED_ARGS + MAX_REPORTED_LINE / sizeof(l->args.text), skip_step, &l, 0);
	u64 line = l->args.at - argv;
	u32 end = e->first;
	if (ring && end <= MAX_PATHS) {
		long n = bpf_probe_read_kernel_str(w.draft->paths + end, MAX_ASKED, (void *)l->asked);
		if (n > 0)
			end += n;
		if (line > MAX_REPORTED_LINE)
			line = MAX_REPORTED_LINE;
		if (!bpf_probe_read_user(w.draft->paths + end, line, (void *)argv))
			end += line;
		e->second = end - e->first;
		if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) + BPF_RINGBUF_HDR_SZ + sizeof(*e) + end <= RING_SIZE / 2) {
			fill(e, l, s, &d);
			emitted = !bpf_ringbuf_output(ring, e, sizeof(*e) + end, 0);
		}
	}
	__sync_lock_test_and_set(&w.draft->busy, 0);
	return emitted;
}

/* executed reports the program at target[0], or counts it as unrecorded. */
__noinline int executed(struct label *l, u64 argv, u32 argc)
{
	if (!l)
		return 0;
	struct session *s = session_of(l);

	if (s && (!within_rate(&s->execs, EXEC_RATE) || !emit_exec(l, s, argv, argc)))
		__sync_fetch_and_add(&s->unrecorded, 1);
	return 0;
}

/* end_session_thread makes toolguard's thread an ordinary task of the session when it executes a program. */
static __always_inline void end_session_thread(struct label *l)
{
	u64 task = bpf_get_current_task();
	struct member *m = bpf_map_lookup_elem(&members, &task);

	l->session_thread = 0;
	if (m)
		m->session_thread = 0;
}

/*
 * security_bprm_committed_creds: begin_new_exec, when the process has its new memory and is past the point of return. The
 * arguments are at bprm->p, one after the other. The stack hasn't been moved to its final address yet (setup_arg_pages). A
 * denial can return no error here: the process is killed before its first instruction. So it is if the session got another
 * policy after the first check. The program counts as executed, though the kernel may still kill the process for lack of memory
 * or an invalid file.
 */
SEC("lsm/bprm_committed_creds")
int BPF_PROG(toolguard_bprm_committed_creds, struct linux_binprm *bprm)
{
	struct label *l = confined();
	struct session *s;
	u32 why = 0;

	if (!l) {
		if (unconfined(-EACCES))
			bpf_send_signal(SIGKILL);
		return 0;
	}
	if (l->session_thread)
		end_session_thread(l);
	bool reports = l->walk.header[H_SEED] & SEED_EXECS; /* the header was read by bprm_check_security, or later */
	if (!l->nexec && !reports)
		return 0;
	if (l->nexec) {
		s = session_of(l);
		if (!s || generation_of(s) != l->generation)
			why = exchanged(l);
		else if (!accepted(l, bprm->p, bprm->argc))
			why = WHY_ARGS;
	}
	set_target(l, 0, bprm->file->f_path.mnt, bprm->file->f_path.dentry);
	l->asked = (u64)bprm->filename;
	if (!why)
		return reports ? executed(l, bprm->p, bprm->argc) : 0;
	struct denial d = { .op = OP_COMMAND, .why = why, .need = CAP_EXECUTE, .error = EACCES, .paths = 1, .args = why == WHY_ARGS };
	d.detail = d.args && l->args.misfiled;
	bpf_send_signal(SIGKILL);
	deny(l, &d);
	return 0;
}

/* security_mmap_file: every mmap and every segment of a program that the kernel loads. file is NULL for anonymous memory. Every segment
 * of a loaded program needs execute: no other hook sees an ELF file's interpreter. */
SEC("lsm/mmap_file")
int BPF_PROG(toolguard_mmap_file, struct file *file, unsigned long reqprot, unsigned long prot, unsigned long flags)
{
	struct label *l;

	if (!file || !(prot & PROT_EXEC || file->f_flags & FMODE_EXEC))
		return 0;
	l = confined();
	return l ? allow(l, OP_MAP, file->f_path.mnt, file->f_path.dentry, CAP_EXECUTE) : unconfined(-EACCES);
}

#define VM_EXEC 4

/* security_file_mprotect: mprotect and pkey_mprotect, for mappings made without PROT_EXEC. An overlay's mapping is of its layer's file,
 * on an internal mount since Linux 6.5, so that it's denied. */
SEC("lsm/file_mprotect")
int BPF_PROG(toolguard_file_mprotect, struct vm_area_struct *vma, unsigned long reqprot, unsigned long prot)
{
	struct file *file = vma->vm_file;
	struct label *l;

	if (!file || !(prot & PROT_EXEC) || vma->vm_flags & VM_EXEC)
		return 0;
	l = confined();
	return l ? allow(l, OP_MAP, file->f_path.mnt, file->f_path.dentry, CAP_EXECUTE) : unconfined(-EACCES);
}
