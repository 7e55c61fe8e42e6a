/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's types, as far as the programs here read them. Each has only the members in use: their places are found
 * when the programs are loaded (CO-RE), so what a struct looks like here says nothing about the running kernel.
 */
#ifndef TOOLGUARD_VMLINUX_H
#define TOOLGUARD_VMLINUX_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};
enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_CLONE = 1U << 9,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_F_INNER_MAP = 1U << 12,
};
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1U << 0 };

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RINGBUF_HDR_SZ = 8,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seqcount {
	unsigned int sequence;
};

struct seqcount_spinlock {
	struct seqcount seqcount;
};

struct qstr {
	union {
		struct {
			u32 hash;
			u32 len;
		};
		u64 hash_len;
	};
	const unsigned char *name;
};

struct super_block {
	unsigned int s_dev;
	unsigned long s_flags;
	unsigned long s_magic;
	struct dentry *s_root;
};

typedef struct {
	u32 val;
} kuid_t;

typedef struct {
	u32 val;
} kgid_t;

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned int i_nlink;
	unsigned int i_rdev;
};

struct hlist_bl_node {
	struct hlist_bl_node *next, **pprev;
};

struct dentry {
	unsigned int d_flags;
	struct seqcount_spinlock d_seq;
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
};

struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
	int mnt_flags;
};

struct ns_common {
	unsigned int inum;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	struct mnt_namespace *mnt_ns;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	unsigned int f_flags;
	struct inode *f_inode;
	struct path f_path;
};

struct fown_struct {
	struct file *file;
};

struct file___embedded { /* before Linux 6.12 */
	struct fown_struct f_owner;
};

struct iattr {
	unsigned int ia_valid;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	struct sock *sk;
};

struct unix_sock {
	struct unix_address *addr;
	struct path path;
	struct sock *peer;
};

struct cred {
	kuid_t uid;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

#define PIDTYPE_TGID 1

struct pid {
	struct hlist_head tasks[4];
};

struct proc_inode {
	struct pid *pid;
	struct inode vfs_inode;
};

struct linux_binprm {
	struct file *file;
	int argc;
	const char *filename;
	const char *interp;
	unsigned long p;
};

struct linux_binprm___asks { /* since Linux 6.14 */
	unsigned int is_check : 1;
};

struct vm_area_struct {
	unsigned long vm_flags;
	struct file *vm_file;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
	struct file *exe_file;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

struct task_struct {
	unsigned int flags;
	unsigned int ptrace;
	int pid;
	int tgid;
	unsigned long atomic_flags;
	const struct cred *real_cred;
	const struct cred *cred;
	u64 start_boottime;
	char comm[16];
	struct hlist_node pid_links[4];
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct sigpending pending;
	struct bpf_local_storage *bpf_storage;
};

#pragma clang attribute pop

#endif
