/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is executed. The file of every level of an execve (a script, then its interpreter) needs execute, and where commands
 * are declared it must be one of them; so does whatever is mapped executable, which is how ld.so loads a program or a
 * library. Arguments are looked at where nobody can change them any more: in the new process's own memory, before it has
 * run, when every other thread is gone and no other process can reach it yet.
 */

#define PROT_EXEC 4
#define SIGKILL 9

/* command_record is the line of what is said of the program just followed, 0: nothing. */
static __always_inline u32 command_record(struct label *l)
{
	u32 node = l->match[0].node;
	struct line *n;

	if (node == NO_NODE)
		return 0;
	n = line_of(l->climb.image, l->climb.header[H_NODES] + node / 4);
	return n ? NODE_COMMAND(n->w[(node & 3) * 4 + 3]) : 0;
}

/* What is being asked of each layer: what it says of the program just followed. */
struct listing {
	struct label *l;
	u32 record, rules, argc, layer;
	bool first, conditional;
};

/* entry_step sees whether the j-th rule is the layer's, and whether it has conditions. */
static long entry_step(u32 j, void *ctx)
{
	struct listing *o = ctx;
	struct label *l = o->l;
	struct line *r = line_of(l->climb.image, o->record + 1 + j / 4);

	if (!r || r->w[(j & 3) * 4] != o->layer)
		return 0;
	l->listing.found = 1;
	l->match[0].layer = o->layer;
	l->match[0].hit = r->w[(j & 3) * 4 + 1];
	o->conditional |= r->w[(j & 3) * 4 + 2] != 0;
	return 0;
}

/* later keeps what will be asked when the arguments are there; false: there's no room. */
static __always_inline bool later(struct listing *o)
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

	if (i >= l->climb.header[H_NLAYERS])
		return 1;
	struct line *layer = line_of(l->climb.image, l->climb.header[H_LAYERS] + i / 4);
	if (!layer) {
		l->listing.refused = 1;
		return 1;
	}
	o->layer = i;
	l->listing.found = layer->w[(i & 3) * 4 + 3] != DENY;
	o->conditional = false;
	bpf_loop(o->rules, entry_step, o, 0);
	if (!l->listing.found) {
		l->match[0].layer = i;
		l->match[0].hit = NO_HIT;
		l->listing.refused = 1;
	} else if (o->conditional && !later(o)) {
		l->listing.refused = 1;
	}
	return l->listing.refused != 0;
}

/* rules_of is how many rules a program's record has. */
static __always_inline u32 rules_of(struct label *l, u32 record)
{
	struct line *head = record ? line_of(l->climb.image, record) : NULL;

	return !head ? 0 : head->w[0] < MAX_COMMANDS ? head->w[0] : MAX_COMMANDS;
}

/* listed says whether every layer that declares commands lists the program just followed, and keeps what it says about
 * its arguments. first: it's what was to be executed, not an interpreter. */
__noinline bool listed(struct label *l, u32 argc, bool first)
{
	if (!l)
		return false;
	struct listing o = { .l = l, .record = command_record(l), .argc = argc, .first = first };

	o.rules = rules_of(l, o.record);
	l->listing.refused = 0;
	bpf_loop(MAX_LAYERS, listing_step, &o, 0);
	return !l->listing.refused;
}

/* read_args reads what is held against a list: of the kernel's, of the new process's memory or, before there is one, of what was
 * gathered of its parent's. They are where the kernel has just put them, so nothing has to be paged in. */
static __always_inline long read_args(struct label *l, void *to, u32 n, u64 from)
{
	if (l->args.kernel)
		return bpf_probe_read_kernel(to, n, (void *)from);
	if (l->args.gathered)
		return from + n > l->args.gathered || bpf_probe_read_kernel(to, n, l->args.text + (from & (sizeof(l->args.text) - 1)));
	return bpf_probe_read_user(to, n, (void *)from);
}

/* read_string reads a string of user memory, or its beginning; it's how many bytes that are, with the NUL, or an error. That an empty one
 * has a byte, too, some kernels leave out (strncpy_from_user_nofault). */
static __always_inline long read_string(void *to, u32 n, u64 from)
{
	long got = bpf_probe_read_user_str(to, n, (void *)from);

	return got ? got : 1;
}

/* skip_step passes over (a piece of) a string of the new process's. */
static long skip_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;

	if (!l->args.skip)
		return 1;
	long n = read_string(l->args.text, sizeof(l->args.text), l->args.at);
	if (n < 0) {
		l->args.broken = 1;
		return 1;
	}
	if (n < sizeof(l->args.text)) {
		l->args.at += n;
		l->args.skip--;
	} else {
		l->args.at += n - 1;
	}
	return 0;
}

/* same_step compares 64 bytes more of what lies at `at` with a line of the image. */
static long same_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	u32 done = i * sizeof(struct line);
	u64 have[8] = {};

	if (done >= l->args.length)
		return 1;
	u32 n = l->args.length - done;
	struct line *want = line_of(l->climb.image, l->args.want + i);
	if (n > sizeof(struct line))
		n = sizeof(struct line);
	if (!want || read_args(l, have, n, l->args.at + done)) {
		l->args.same = 0;
		return 1;
	}
	for (u32 k = 0; k < 8; k++)
		if (have[k] != want->q[k])
			l->args.same = 0;
	return !l->args.same;
}

/* pass passes over n strings. */
static __always_inline void pass(struct label *l, u32 n)
{
	l->args.skip = n;
	bpf_loop(MAX_ALTERNATIVES, skip_step, &l, 0);
	l->args.broken |= l->args.skip != 0;
}

/* name_step holds the end of the name that the program is called by, from `called` to `named`, against one that it may have there. */
static long name_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	struct line *names = line_of(l->climb.image, l->args.names);
	u8 before = '/';

	if (!names || i >= MAX_CALLED || i >= names->w[0])
		return 1;
	l->args.length = names->w[1 + 2 * i];
	l->args.want = names->w[2 + 2 * i];
	l->args.at = l->args.named - l->args.length;
	if (l->args.at < l->args.called || l->args.named < l->args.length)
		return 0;
	l->args.same = l->args.at == l->args.called || (!read_args(l, &before, 1, l->args.at - 1) && before == '/');
	if (l->args.same)
		bpf_loop((MAX_NAME + sizeof(struct line)) / sizeof(struct line), same_step, ctx, 0);
	l->args.accepted = l->args.same;
	return l->args.accepted != 0;
}

/* answers says whether a program may be called what lies from `called` to `named`. */
static __always_inline bool answers(struct label *l, u32 names)
{
	l->args.names = names;
	l->args.accepted = 0;
	bpf_loop(MAX_CALLED, name_step, &l, 0);
	return l->args.accepted;
}

/* file_answers says the same of the name by which a program was executed: the auxiliary vector tells the program (AT_EXECFN). */
static __always_inline bool file_answers(struct label *l, u32 names)
{
	u64 called = l->args.called, named = l->args.named;

	l->args.called = l->file;
	l->args.named = l->file_end;
	l->args.kernel = 1;
	bool yes = answers(l, names);
	l->args.kernel = 0;
	l->args.called = called;
	l->args.named = named;
	return yes;
}

#define PATH_MAX 4096

static long file_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	long n = bpf_probe_read_kernel_str(l->args.text, sizeof(l->args.text), (void *)l->file_end);

	if (n > 0)
		l->file_end += n < sizeof(l->args.text) ? n : n - 1;
	return n < (long)sizeof(l->args.text);
}

/* name_file finds where the name ends by which a program is executed. A descriptor's isn't a name (alloc_bprm). */
static __always_inline void name_file(struct label *l, struct linux_binprm *bprm)
{
	const char folder[] = "/dev/fd/";
	char start[8] = {}, number[12] = {};
	u64 name = (u64)bprm->filename;
	bool digits = true;

	l->file = l->file_end = name;
	bpf_loop(PATH_MAX / sizeof(l->args.text) + 1, file_step, &l, 0);
	bpf_probe_read_kernel(start, sizeof(start), (void *)name);
	long n = bpf_probe_read_kernel_str(number, sizeof(number), (void *)(name + 8));
	for (u32 i = 0; i < sizeof(number) - 1; i++)
		if (i + 1 < n && (number[i] < '0' || number[i] > '9'))
			digits = false;
	if (digits && n > 1 && n < sizeof(number) && *(u64 *)start == *(u64 *)folder)
		l->file = 0;
}

/* An alternative is {number of arguments, whether others may follow, bytes, line of its text}: the arguments with the NUL
 * that ends each, as they lie in memory. */
static long alternative_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	struct line *alternatives = line_of(l->climb.image, l->args.list + (i + 2) / 16);
	struct line *head = line_of(l->climb.image, l->args.list);

	if (!head || !alternatives || i >= head->w[0])
		return 1;
	struct line *a = line_of(l->climb.image, alternatives->w[(i + 2) & 15]);
	if (!a || (a->w[1] ? l->args.count < a->w[0] : l->args.count != a->w[0]))
		return 0;
	l->args.length = a->w[2];
	l->args.want = a->w[3];
	l->args.at = l->args.named;
	l->args.same = 1;
	bpf_loop(MAX_ARGS / sizeof(struct line), same_step, ctx, 0);
	l->args.accepted = l->args.same;
	return l->args.accepted != 0;
}

/* rule_step asks the j-th rule, if it's the layer's, until one without conditions or that the program answers to has decided. */
static long rule_step(u32 j, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	struct line *r = line_of(l->climb.image, l->args.record + 1 + j / 4);

	if (!r || r->w[(j & 3) * 4] != l->args.layer)
		return 0;
	u32 hit = r->w[(j & 3) * 4 + 1], list = r->w[(j & 3) * 4 + 2];
	if (l->match[0].hit == NO_HIT)
		l->match[0].hit = hit;
	if (!list) {
		l->args.accepted = 1;
		return 1;
	}
	struct line *head = line_of(l->climb.image, list);
	if (!head || l->args.broken)
		return 0;
	u32 names = head->w[1];
	if (!answers(l, names))
		return 0;
	if (l->args.first && l->file && !file_answers(l, names)) {
		l->args.misfiled = 1;
		l->match[0].hit = hit;
		return 0;
	}
	l->args.misfiled = l->args.accepted = 0;
	l->args.list = list;
	l->match[0].hit = hit;
	bpf_loop(MAX_ALTERNATIVES, alternative_step, ctx, 0);
	return 1;
}

/* accepted_step checks the arguments of one level, and the string before them: the name by which the caller or, of what was executed
 * as an interpreter, the kernel calls it. They are the last of all: an interpreter's own come before. */
static long accepted_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;

	if (i >= l->nexec)
		return 1;
	u32 k = i & (MAX_EXEC - 1);
	l->args.record = l->exec[k].record;
	l->args.layer = l->match[0].layer = l->exec[k].layer;
	l->args.first = l->exec[k].first;
	l->args.count = l->exec[k].argc ? l->exec[k].argc - 1 : 0;
	l->args.accepted = l->args.misfiled = 0;
	l->match[0].hit = NO_HIT;
	if (!l->args.gathered) {
		l->args.broken = 0;
		l->args.at = l->args.start;
		pass(l, l->args.argc - l->args.count - 1);
		l->args.called = l->args.at;
		pass(l, 1);
		l->args.named = l->args.at;
	}
	bpf_loop(rules_of(l, l->args.record), rule_step, ctx, 0);
	l->args.refused = !l->args.accepted;
	return l->args.refused;
}

/* argv_of is where the caller of execve or execveat has its arguments; 0: this is no such call. */
static __always_inline u64 argv_of(u64 regs)
{
	if (ON_AMD64) {
		u64 nr = LOAD(struct pt_regs___amd64, regs, orig_ax);
		return nr == 59    ? LOAD(struct pt_regs___amd64, regs, si)
		       : nr == 322 ? LOAD(struct pt_regs___amd64, regs, dx)
				   : 0;
	}
	if (bpf_core_field_exists(struct pt_regs___arm64, syscallno)) {
		s32 nr = LOAD(struct pt_regs___arm64, regs, syscallno);
		return nr == 221   ? LOAD(struct pt_regs___arm64, regs, regs[1])
		       : nr == 281 ? LOAD(struct pt_regs___arm64, regs, regs[2])
				   : 0;
	}
	return 0;
}

/* gather_step adds one more of the arguments to text: the caller's, as it would lie in the new process's memory, or one there. */
static long gather_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	u32 at = l->args.gathered;
	u64 arg = l->args.at;

	if (i >= l->args.count || at >= sizeof(l->args.text) - 256)
		return 1;
	if (l->args.vector && bpf_probe_read_user(&arg, sizeof(arg), (void *)(l->args.vector + 8 * i))) {
		l->args.broken = 1;
		return 1;
	}
	bounded(at, sizeof(l->args.text) - 1);
	if (at > sizeof(l->args.text) - 256)
		return 1;
	long n = read_string(l->args.text + at, 256, arg);
	l->args.broken = n < 0 || n == 256;
	if (n < 0)
		return 1;
	l->args.gathered = at + n;
	l->args.at = arg + n;
	if (!i)
		l->args.named = n;
	return n == 256;
}

/* TOLD is how much of a name's end is told, where that's how it can't be called. */
#define TOLD 128

/* tell_file has the event tell the name by which a program was executed, in place of what it's called. */
static __always_inline void tell_file(struct label *l)
{
	u64 from = l->file_end > l->file + TOLD ? l->file_end - TOLD : l->file;
	long n = bpf_probe_read_kernel_str(l->args.text, TOLD, (void *)from);

	l->args.length = n > 0 ? n : 0;
}

/*
 * expected says whether the caller's arguments would be accepted, as far as can be told before the kernel's own copy can be
 * read: a refusal that comes now is an error that the caller sees, and later it's a dead process. They may change until
 * then, so a yes proves nothing. What is too long to look at is left for later.
 */
__noinline bool expected(struct label *l, u32 argc)
{
	if (!l)
		return true;
	l->args.vector = argv_of((u64)bpf_task_pt_regs(bpf_get_current_task_btf()));
	if (!l->args.vector)
		return true;
	l->args.called = 0;
	l->args.count = argc;
	l->args.gathered = l->args.broken = l->args.refused = 0;
	bpf_loop(sizeof(l->args.text), gather_step, &l, 0);
	if (l->args.broken || !l->args.gathered || l->args.gathered >= sizeof(l->args.text) - 256)
		return true;
	bpf_loop(MAX_EXEC, accepted_step, &l, 0);
	l->args.length = l->args.gathered;
	if (l->args.refused && l->args.misfiled)
		tell_file(l);
	return !l->args.refused;
}

/* exchanged is for an execve that began by another policy than the one in force: the lists that it found are no more. */
static __always_inline u32 exchanged(struct label *l)
{
	l->match[0].status = WALK_EXCHANGED;
	return WHY_UNRESOLVED;
}

/* executes decides about one level. */
static __always_inline int executes(struct label *l, struct linux_binprm *bprm)
{
	struct denial d = { .op = OP_EXECUTE, .need = CAP_EXECUTE, .error = EACCES, .paths = 1 };
	aim(l, 0, bprm->file->f_path.mnt, bprm->file->f_path.dentry);
	d.why = judge(l, 0, CAP_EXECUTE);
	bool first = !l->nexec;
	if (!d.why && !first && l->generation != l->climb.header[H_GENERATION])
		d.why = exchanged(l);
	if (!d.why) {
		l->generation = l->climb.header[H_GENERATION];
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
	refuse(l, &d);
	return -EACCES;
}

/* only_asks says whether it's execveat with AT_EXECVE_CHECK, which goes no further than security_bprm_creds_for_exec. */
static __always_inline bool only_asks(struct linux_binprm *bprm)
{
	struct linux_binprm___asks *asks = (void *)bprm;

	return bpf_core_field_exists(asks->is_check) && BPF_CORE_READ_BITFIELD(asks, is_check);
}

/* security_bprm_creds_for_exec: once for each execve, before its first level. Who only asks is told about that level what execve
 * would be; what is so long that execve would be refused at the end only can't be seen yet. */
SEC("lsm/bprm_creds_for_exec")
int BPF_PROG(toolguard_bprm_creds_for_exec, struct linux_binprm *bprm)
{
	struct label *l = guarded();
	int error = 0;

	if (!l)
		return outside(-EACCES);
	l->nexec = 0;
	if (only_asks(bprm)) {
		error = executes(l, bprm);
		l->nexec = 0;
	}
	return error;
}

/* security_bprm_check: search_binary_handler (exec_binprm), for each level before it's loaded. */
SEC("lsm/bprm_check_security")
int BPF_PROG(toolguard_bprm_check_security, struct linux_binprm *bprm)
{
	struct label *l = guarded();

	return l ? executes(l, bprm) : outside(-EACCES);
}

/* accepted says whether the new process's arguments are; if not, those that aren't are in text then, after the name. */
static __always_inline bool accepted(struct label *l, u64 start, u32 argc)
{
	l->args.start = start;
	l->args.argc = argc;
	l->args.gathered = l->args.vector = l->args.refused = 0;
	bpf_loop(MAX_EXEC, accepted_step, &l, 0);
	if (!l->args.refused)
		return true;
	if (l->args.misfiled) {
		tell_file(l);
		return false;
	}
	l->args.at = l->args.named > l->args.called + TOLD ? l->args.named - TOLD : l->args.called;
	l->args.count++;
	bpf_loop(sizeof(l->args.text), gather_step, &l, 0);
	l->args.length = l->args.gathered;
	return false;
}

/* tell_exec writes the event of a program; false: it couldn't be. It takes a CPU's first draft only, and half of the ring: what
 * is refused has the others. (On several CPUs at once each may take a little more than that half.) */
static __always_inline bool tell_exec(struct label *l, struct session *s, u64 argv, u32 argc)
{
	struct writer w = { .c = &l->climb, .draft = take_draft(1) };
	struct denial d = { .op = OP_EXEC, .detail = argc };
	u32 key = s->ring;
	void *ring = bpf_map_lookup_elem(&rings, &key);
	bool told = false;

	if (!w.draft)
		return false;
	struct event *e = &w.draft->e;
	w.c->at = 0;
	e->first = write_path(&w, &l->target[0], &l->match[0]);
	l->args.at = argv;
	l->args.skip = argc < MAX_TOLD_ARGS ? argc : MAX_TOLD_ARGS;
	bpf_loop(MAX_TOLD_ARGS + MAX_TOLD_LINE / sizeof(l->args.text), skip_step, &l, 0);
	u64 line = l->args.at - argv;
	u32 end = e->first;
	if (ring && end <= MAX_PATHS) {
		long n = bpf_probe_read_kernel_str(w.draft->paths + end, MAX_ASKED, (void *)l->asked);
		if (n > 0)
			end += n;
		if (line > MAX_TOLD_LINE)
			line = MAX_TOLD_LINE;
		if (!bpf_probe_read_user(w.draft->paths + end, line, (void *)argv))
			end += line;
		e->second = end - e->first;
		if (bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) + BPF_RINGBUF_HDR_SZ + sizeof(*e) + end <= RING_SIZE / 2) {
			fill(e, l, s, &d);
			told = !bpf_ringbuf_output(ring, e, sizeof(*e) + end, 0);
		}
	}
	__sync_lock_test_and_set(&w.draft->busy, 0);
	return told;
}

/* executed tells of the program that target[0] is, or counts it. */
__noinline int executed(struct label *l, u64 argv, u32 argc)
{
	if (!l)
		return 0;
	struct session *s = session_of(l);

	if (s && (!within_rate(&s->execs, EXEC_RATE) || !tell_exec(l, s, argv, argc)))
		__sync_fetch_and_add(&s->unrecorded, 1);
	return 0;
}

/* come_out makes toolguard's thread one of the session's when it's toolguard's no more. */
static __always_inline void come_out(struct label *l)
{
	u64 task = bpf_get_current_task();
	struct member *m = bpf_map_lookup_elem(&members, &task);

	l->inside = 0;
	if (m)
		m->inside = 0;
}

/*
 * security_bprm_committed_creds: begin_new_exec, when the process has its new memory and is past the point of return. The
 * arguments lie at bprm->p, one after the other, and the stack hasn't been moved to its final place yet (setup_arg_pages).
 * It's too late to refuse: the process is killed before it runs its first instruction. So is one whose session was given
 * another policy since the program was found. Of what goes on from here execve tells no error any more: it has been executed,
 * though the kernel may still kill the process for want of memory or for what the file holds.
 */
SEC("lsm/bprm_committed_creds")
int BPF_PROG(toolguard_bprm_committed_creds, struct linux_binprm *bprm)
{
	struct label *l = guarded();
	struct session *s;
	u32 why = 0;

	if (!l) {
		if (outside(-EACCES))
			bpf_send_signal(SIGKILL);
		return 0;
	}
	if (l->inside)
		come_out(l);
	bool told = l->climb.header[H_SEED] & SEED_EXECS; /* the header is of bprm_check_security, or of a policy since */
	if (!l->nexec && !told)
		return 0;
	if (l->nexec) {
		s = session_of(l);
		if (!s || generation_of(s) != l->generation)
			why = exchanged(l);
		else if (!accepted(l, bprm->p, bprm->argc))
			why = WHY_ARGS;
	}
	aim(l, 0, bprm->file->f_path.mnt, bprm->file->f_path.dentry);
	l->asked = (u64)bprm->filename;
	if (!why)
		return told ? executed(l, bprm->p, bprm->argc) : 0;
	struct denial d = { .op = OP_COMMAND, .why = why, .need = CAP_EXECUTE, .error = EACCES, .paths = 1, .args = why == WHY_ARGS };
	d.detail = d.args && l->args.misfiled;
	bpf_send_signal(SIGKILL);
	refuse(l, &d);
	return 0;
}

/* security_mmap_file: every mmap and every segment of a program that the kernel loads. file is NULL for memory alone. What is loaded to be
 * executed needs execute with all that is mapped of it: an ELF file's interpreter is asked about nowhere else, and is read by who starts it. */
SEC("lsm/mmap_file")
int BPF_PROG(toolguard_mmap_file, struct file *file, unsigned long reqprot, unsigned long prot, unsigned long flags)
{
	struct label *l;

	if (!file || !(prot & PROT_EXEC || file->f_flags & FMODE_EXEC))
		return 0;
	l = guarded();
	return l ? allow(l, OP_MAP, file->f_path.mnt, file->f_path.dentry, CAP_EXECUTE) : outside(-EACCES);
}

#define VM_EXEC 4

/* security_file_mprotect: mprotect and pkey_mprotect, for what was mapped without. What an overlay maps is its layer's file, on a mount of
 * its own since Linux 6.5, so that nothing is executed that way. */
SEC("lsm/file_mprotect")
int BPF_PROG(toolguard_file_mprotect, struct vm_area_struct *vma, unsigned long reqprot, unsigned long prot)
{
	struct file *file = vma->vm_file;
	struct label *l;

	if (!file || !(prot & PROT_EXEC) || vma->vm_flags & VM_EXEC)
		return 0;
	l = guarded();
	return l ? allow(l, OP_MAP, file->f_path.mnt, file->f_path.dentry, CAP_EXECUTE) : outside(-EACCES);
}
