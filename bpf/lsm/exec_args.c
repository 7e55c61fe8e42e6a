/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the arguments of a program with the policy's lists. They are read where no process can change them any more: in the new
 * process's memory, before its first instruction, when its other threads have ended and no other process can access it yet.
 */

/* rules_of is the number of rules in a program's record. */
static __always_inline u32 rules_of(struct label *l, u32 record)
{
	struct line *head = record ? line_of(l->walk.image, record) : NULL;

	return !head ? 0 : head->w[0] < MAX_COMMANDS ? head->w[0] : MAX_COMMANDS;
}

/* read_args reads the bytes to compare: from kernel memory, from the new process's memory or, before that exists, from the arguments
 * gathered from the caller. The kernel has just written them, so that no page is missing. */
static __always_inline long read_args(struct label *l, void *to, u32 n, u64 from)
{
	if (l->args.kernel)
		return bpf_probe_read_kernel(to, n, (void *)from);
	if (l->args.gathered)
		return from + n > l->args.gathered || bpf_probe_read_kernel(to, n, l->args.text + (from & (sizeof(l->args.text) - 1)));
	return bpf_probe_read_user(to, n, (void *)from);
}

/* read_string reads a string of user memory, or its beginning. It returns the number of bytes with the NUL, or an error. Some kernels
 * return 0 for an empty string (strncpy_from_user_nofault). */
static __always_inline long read_string(void *to, u32 n, u64 from)
{
	long got = bpf_probe_read_user_str(to, n, (void *)from);

	return got ? got : 1;
}

/* skip_step skips a string of the new process, or a part of one. */
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

/* same_step compares the next 64 bytes at `at` with a line of the image. */
static long same_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	u32 done = i * sizeof(struct line);
	u64 have[8] = {};

	if (done >= l->args.length)
		return 1;
	u32 n = l->args.length - done;
	struct line *want = line_of(l->walk.image, l->args.want + i);
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

/* pass skips n strings. */
static __always_inline void pass(struct label *l, u32 n)
{
	l->args.skip = n;
	bpf_loop(MAX_ALTERNATIVES, skip_step, &l, 0);
	l->args.broken |= l->args.skip != 0;
}

/* name_step compares the end of argv[0], from `called` to `named`, with one permitted name. */
static long name_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	struct line *names = line_of(l->walk.image, l->args.names);
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

/* answers reports whether argv[0], from `called` to `named`, is a permitted name of the program. */
static __always_inline bool answers(struct label *l, u32 names)
{
	l->args.names = names;
	l->args.accepted = 0;
	bpf_loop(MAX_CALLED, name_step, &l, 0);
	return l->args.accepted;
}

/* file_answers is answers for the name that the program was executed by, which it sees in its auxiliary vector (AT_EXECFN). */
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

/* name_file finds the end of the name that a program is executed by. The kernel's name for a descriptor doesn't count (alloc_bprm). */
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

/* An alternative is {number of arguments, whether more may follow, bytes, line of its text}. The text has the arguments as in memory,
 * each with its NUL. */
static long alternative_step(u32 i, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	struct line *alternatives = line_of(l->walk.image, l->args.list + (i + 2) / 16);
	struct line *head = line_of(l->walk.image, l->args.list);

	if (!head || !alternatives || i >= head->w[0])
		return 1;
	struct line *a = line_of(l->walk.image, alternatives->w[(i + 2) & 15]);
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

/* rule_step checks the j-th rule, if it's the layer's, until a rule decides: one without conditions, or one with the program's name. */
static long rule_step(u32 j, void *ctx)
{
	struct label *l = *(struct label **)ctx;
	struct line *r = line_of(l->walk.image, l->args.record + 1 + j / 4);

	if (!r || r->w[(j & 3) * 4] != l->args.layer)
		return 0;
	u32 hit = r->w[(j & 3) * 4 + 1], list = r->w[(j & 3) * 4 + 2];
	if (l->match[0].hit == NO_HIT)
		l->match[0].hit = hit;
	if (!list) {
		l->args.accepted = 1;
		return 1;
	}
	struct line *head = line_of(l->walk.image, list);
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

/* accepted_step checks the arguments of one level and the string before them, argv[0], which is the caller's or, for an interpreter,
 * the kernel's. A level's arguments are the last strings: an interpreter's own precede them. */
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
	l->args.denied = !l->args.accepted;
	return l->args.denied;
}

/* argv_of is the address of the arguments of execve or execveat; 0: it's another call. */
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

/* gather_step adds the next argument to text: the caller's, in the form that it will have in the new process's memory, or one there. */
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

/* MAX_REPORTED_NAME limits a denied name in an event: its last bytes are reported. */
#define MAX_REPORTED_NAME 128

/* report_file_name makes the event report the name that a program was executed by, in place of argv[0]. */
static __always_inline void report_file_name(struct label *l)
{
	u64 from = l->file_end > l->file + MAX_REPORTED_NAME ? l->file_end - MAX_REPORTED_NAME : l->file;
	long n = bpf_probe_read_kernel_str(l->args.text, MAX_REPORTED_NAME, (void *)from);

	l->args.length = n > 0 ? n : 0;
}

/*
 * expected checks the caller's arguments early, before the kernel's own copy can be read: a denial now is an error that the caller
 * sees; a later one kills the process. The caller can still change them, so that a yes isn't final. Arguments that are too long
 * for this check are left to the final one.
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
	l->args.gathered = l->args.broken = l->args.denied = 0;
	bpf_loop(sizeof(l->args.text), gather_step, &l, 0);
	if (l->args.broken || !l->args.gathered || l->args.gathered >= sizeof(l->args.text) - 256)
		return true;
	bpf_loop(MAX_EXEC, accepted_step, &l, 0);
	l->args.length = l->args.gathered;
	if (l->args.denied && l->args.misfiled)
		report_file_name(l);
	return !l->args.denied;
}

/* accepted is the final check, of the new process's arguments. If it fails, text has argv[0] and the denied arguments. */
static __always_inline bool accepted(struct label *l, u64 start, u32 argc)
{
	l->args.start = start;
	l->args.argc = argc;
	l->args.gathered = l->args.vector = l->args.denied = 0;
	bpf_loop(MAX_EXEC, accepted_step, &l, 0);
	if (!l->args.denied)
		return true;
	if (l->args.misfiled) {
		report_file_name(l);
		return false;
	}
	l->args.at = l->args.named > l->args.called + MAX_REPORTED_NAME ? l->args.named - MAX_REPORTED_NAME : l->args.called;
	l->args.count++;
	bpf_loop(sizeof(l->args.text), gather_step, &l, 0);
	l->args.length = l->args.gathered;
	return false;
}
