package policy

import "time"

// Source is a policy as written: read, merged inside each authority, with the position of every rule, but with no path
// resolved yet. Package policyfile makes it from TOML; Compile turns it into the form that everything else reads.
type Source struct {
	Name       string
	Workspace  string        // absolute
	Chosen     Position      // what named the workspace; empty when it was found
	Home       string        // absolute; the value of "~/"
	NeverHome  []string      // absolute: these homes, and the folders around them, are the workspace only where something names it
	Path       string        // the session's PATH: where command names are looked up
	TmpDir     string        // the session's private TMPDIR, absolute; "" when there is none (check, lint)
	Repository Repository    // the git repository that the workspace's .git leads to
	Files      []string      // the policy files in force, absolute: neither they nor the symlinks that lead there are writable by the command
	Own        []string      // toolguard's own folders in the user's home, absolute: neither they nor anything in them is writable by the command
	Layers     []SourceLayer // in the order of Authority; at most one for each authority
	Limits     Limits
	Audit      Audit
	ToolKeys   []Key      // of the tool layer, which isn't enforced
	Detected   []Detected // presets that the built-in default policy includes
}

// Detected is a preset that the built-in default policy includes, and the file of the workspace, or the command, that requires it.
type Detected struct{ Preset, By string }

// Key is a key of a policy that isn't a rule.
type Key struct {
	ID       string // the path to it: "gate.strict", "tools.fetch.owner_only"
	Position Position
}

// Repository is the workspace's git repository where that is outside of it: the workspace is a linked worktree or a submodule. Both paths are canonical;
// for any other workspace they are empty.
type Repository struct {
	Common string // the folder with the objects and branches
	Dir    string // the folder with this worktree's own files; of a submodule the same as Common
}

// SourceLayer is the policy of one authority.
type SourceLayer struct {
	Authority Authority
	Defaults  [NumResources]DefaultAction // Undeclared where the file has no default
	Position  Position                    // of the [access] table

	FS       []FSRule
	Net      []NetRule
	Env      []EnvRule
	Commands []CommandRule

	Runtime []FSRule // prepended where fs is declared and its default isn't allow; paths that don't exist are left out

	Protect      ProtectMode
	Protected    []FSRule // the files of protect, as match rules
	Secrets      ProtectMode
	SecretFiles  []FSRule // the files of secrets; a rule that grants read is an exception
	Namespaces   bool     // new user namespaces are allowed
	Syscalls     Syscalls
	Capabilities []string // CAP_… that the session keeps; normally none
	TLSIntercept bool
	Degraded     []Degraded // rules that the policy itself allows to be enforced in part or not at all
}

// Degraded names a rule that a backend may leave unenforced.
type Degraded struct {
	ID       string
	Position Position `json:"Place"`
}

// ProtectMode is what happens if a backend can't protect the files that trusted programs obey, or files with credentials.
type ProtectMode uint8

// The modes of `protect` and of `secrets`.
const (
	ProtectOff  ProtectMode = iota // false
	ProtectAuto                    // "auto": where the backend can, else reported
	ProtectOn                      // true: else the session doesn't start
)

// Syscalls are the policy's rules for system calls.
type Syscalls struct {
	Profile  string   // "default" or "strict"
	Allow    []string // names removed from the profile's deny list
	Deny     []string // names added to it
	Position Position `json:"Place"`
}

// FSRule is one [[access.fs]] table. Exactly one of Path and Match is set.
type FSRule struct {
	Path      string // literal, as written: relative to the workspace, absolute, or beginning with "~/"
	Match     string // pattern, as written
	Caps      Caps   // after the expansion of write
	Unprotect bool
	Secret    bool
	Ensure    bool // the folder is to be made before the command starts
	Position  Position
	Value     LineCol // of path or match
	// Optional rules are left out when their path is empty, can't be resolved or doesn't exist, instead of failing the load:
	// those of the built-in files, which must serve machines that differ.
	Optional bool
	// NoLink rules are about their own path: they're left out if it contains a symlink, except one that leads to the home. One that
	// denies also applies to a symlink at its path.
	NoLink bool
	// Symlink is about the symlink at Path, which is canonical, and not about where it leads.
	Symlink bool
}

// NetRule is one [[access.net]] table, values as written.
type NetRule struct {
	Host       string
	Scheme     string
	Port       int // 0: none
	PathPrefix string
	Methods    []string
	Protocol   string // "", "tcp" or "udp"
	Listen     bool
	Allow      bool
	Position   Position `json:"Place"`
	Value      LineCol  // of host
}

// EnvRule is one [[access.env]] table, values as written.
type EnvRule struct {
	Name     string
	Read     bool
	Position Position `json:"Place"`
	Value    LineCol  // of name
}

// CommandRule is one [access.commands.NAME] table.
type CommandRule struct {
	Name     string     // a program name or an absolute path
	Args     [][]string // nil: any arguments
	HasArgs  bool       // args is in the file: an empty list allows no arguments at all
	Envs     []string   // variables this program may see; nil with HasEnvs false: as the session
	HasEnvs  bool
	Match    []SelfTest // command lines that the rule must accept
	NotMatch []SelfTest // and those that it mustn't
	Position Position   `json:"Place"`
}

// SelfTest is a whole command line, the program's name first, that a command rule is tried with when it's compiled.
type SelfTest struct {
	Argv     []string
	Position Position `json:"Place"` // empty: the rule's own
}

// Limits is the [limits] table after merging; the smallest of all authorities. Zero means no limit.
type Limits struct {
	Memory    Bytes
	Pids      Count
	CPU       Percent // of one core: 150 is one and a half
	IO        Bytes   // bytes a second, read and written together, per device
	WallTime  Span
	OpenFiles Count
	FileSize  Bytes
}

// Audit is what is recorded in addition to denials: the union of all files' settings.
type Audit struct {
	Exec     bool     // programs that are executed
	Position Position `json:"Place"` // of the first file that asks
}

// AuditID is the ID by which a policy lists its audit among the rules that needn't be enforced.
const AuditID = "audit"

// or returns the union of both.
func (a Audit) or(b Audit) Audit {
	if a.Exec {
		return a
	}
	return b
}

// Positions returns the position of each limit.
func (l *Limits) Positions() []Position {
	return []Position{l.Memory.Position, l.Pids.Position, l.CPU.Position, l.IO.Position, l.WallTime.Position, l.OpenFiles.Position, l.FileSize.Position}
}

// Bytes, Count, Percent and Span are limits with their position.
type (
	// Bytes is a size.
	Bytes struct {
		N        uint64
		Position Position `json:"Place"`
	}
	// Count is a number of things.
	Count struct {
		N        uint64
		Position Position `json:"Place"`
	}
	// Percent is a share of one core.
	Percent struct {
		N        uint64
		Position Position `json:"Place"`
	}
	// Span is a duration.
	Span struct {
		D        time.Duration
		Position Position `json:"Place"`
	}
)
