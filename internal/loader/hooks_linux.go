package loader

// hook is a place in the kernel that a program of bpf/ is attached to: bpf_lsm_NAME for the NAME that is its key.
type hook struct {
	mediates string
	// optional says why a kernel without this hook holds a session all the same; "" where none does.
	optional string
}

// hooks lists every program of the object. bpf/*.c says at each what it's called from.
var hooks = map[string]hook{
	"bprm_check_security":  {mediates: "every level of an execve: a script, then its interpreter"},
	"bprm_committed_creds": {mediates: "the arguments of an execve"},
	"bprm_creds_for_exec":  {mediates: "nothing: it begins an execve"},
	"file_mprotect":        {mediates: "making a mapped file executable"},
	"file_open":            {mediates: "opening a file or folder"},
	"mmap_file":            {mediates: "mapping a file executable"},
	"path_truncate":        {mediates: "truncating a file by its path"},
	"task_alloc":           {mediates: "new tasks: they get the label of the one that makes them"},
	"task_free":            {mediates: "nothing: it counts a session's tasks"},
}
