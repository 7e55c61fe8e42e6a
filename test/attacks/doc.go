// Package attacks runs the programs of src/, one for each trick by which a confined command might get what its policy
// doesn't grant.
//
// Each program runs twice, as root and as an ordinary user: bare, where the trick must work (or the control proves
// nothing), and through `toolguard exec`, where it must get the row's result: a denial, or, where the row names one of
// the backend's stated gaps, success. Three witnesses are compared: what the program got, the files it must not have changed, and,
// where the kernel's records can be read, the event with the rule that decided.
//
// # Traps
//
// Known bypasses of similar tools, and the rows that try them here. Packages before a name are those of tests elsewhere.
//
//	paths too long for the comparison                   deep_path, internal/loader.TestMediates
//	a path that can't be resolved is allowed            deep_path, internal/session/denials.TestDeniedUnresolved
//	leaving the group                                   cgroup_move
//	/secret and /secretary                              component_boundary
//	exempt by a process's name                          comm_game
//	families and calls that were overlooked             inet, sockets, io_uring, io_uring_granted, unix_outside
//	addresses of another family, or too short           inet, test/net.TestAttacks, internal/loader/cgroupsock.TestConnect
//	strings read twice                                  swap_race, argv_rules
//	a wildcard that opens everything; forms of hosts    test/net.TestRules, test/net.TestAttacks
//	the control socket, in a session                    test/daemon.TestFromWithin, test/daemon.TestSocketFromWithin
//	the policy, in a session                            own_files, nested
//	aliases of a file                                   link_out, proc_aliases, proc_fd_reopen, mounted, kernel_doors
//	descriptors; programs executed otherwise            inherited_fd, scm_rights, exec_denied, exec_memfd, exec_ldso, exec_binfmt
//	the daemon is gone                                  test/daemon.TestTakeOver
//	processes outside                                   ptrace_outside, vm_rw, pidfd_getfd, proc_outside
//	nested, without or with a less strict policy        nested, test/daemon.TestNarrower
//	names moved away and back; O_CREAT, O_TRUNC; modes  rename_ancestor, rename_exchange, git_hooks, creat_rdonly, truncate_rdonly, metadata
//	other ABIs and newer calls                          int80, x32, and the variants within each program
//	a supervisor that decides on system calls           none: there is none
//	a green run that tested nothing                     TestControls, test/must-run.txt
//	denials that take long                              test/net.TestDenialsAreFast
package attacks
