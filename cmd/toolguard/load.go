package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// hostPolicies is the folder of the host's policies: they restrict every session of the machine.
const hostPolicies = "/etc/toolguard/policy.d"

// policyFlags select the policy, and the tool, agent and workspace that it applies to.
type policyFlags struct {
	files      []string
	tool       string
	agent      string
	workspace  string
	caller     caller
	limits     string
	noDetect   bool
	command    string               // the command to run, as it's named; "" where there is none
	presets    []string             // of the coding agent to run: they come before the files, and detected presets before them
	ensure     bool                 // folders that rules with ensure = true name are made
	reads      bool                 // the policy is looked at, and no command is to run under it, nor a question to be answered
	own        []string             // files of toolguard's own, which no policy lets a command write
	userPolicy string               // the user's own policy, where no other one is named
	quiet      bool                 // no remarks
	dir        string               // the current folder; "" is this process's
	edited     *edited              // a file of the policy with another text than it has; nil: none
	snapshot   *hostfs.Snapshot     // what each file had when it was read first; nil: it's read each time
	document   *policyfile.Document // what load has read
	running    *api.Session         // whose policy it's to be; nil: of a session that this process starts
}

// define adds the flags to a command that has a policy.
func (p *policyFlags) define(cmd *cobra.Command) {
	p.defineFiles(cmd, "a policy: `FILE` or preset:NAME; repeated ones are merged (default: the user's own for the workspace, else the built-in one)")
	p.defineContext(cmd)
}

// defineFiles adds the flags that select the policies.
func (p *policyFlags) defineFiles(cmd *cobra.Command, help string) {
	cmd.Flags().StringArrayVar(&p.files, "policy", nil, help)
	if err := cmd.RegisterFlagCompletionFunc("policy", completePolicy); err != nil {
		panic(err) // a mistake in this program
	}
	cmd.Flags().BoolVar(&p.noDetect, "no-detect", false, "don't add detected presets for the workspace, the command and PATH to the built-in default policy")
}

// defineContext adds the flags that select the tool, agent and workspace of a policy.
func (p *policyFlags) defineContext(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&p.tool, "tool", "", "on behalf of which tool: the policy's [tools.`NAME`.access] applies too")
	p.caller.defaultEnvironment = os.Getenv("TOOLGUARD_ENVIRONMENT")
	cmd.Flags().StringVar(&p.caller.environment, "environment", "", "which environment of the policy applies: one of `NAME`s in [environments] (default: $TOOLGUARD_ENVIRONMENT, else the policy's own choice)")
	cmd.Flags().StringVar(&p.agent, "agent", "", "on behalf of which agent: the policy's rules for `NAME` apply too")
	p.defineWorkspace(cmd)
}

func (p *policyFlags) defineWorkspace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.workspace, "workspace", "", "relative paths are relative to `DIR`; overrides the policy's workspace")
	if err := cmd.MarkFlagDirname("workspace"); err != nil {
		panic(err) // a mistake in this program
	}
}

// with returns p with another policy.
func (p *policyFlags) with(file string) *policyFlags {
	q := *p
	q.files = []string{file}
	return &q
}

// folder returns the current folder.
func (p *policyFlags) folder() (string, error) {
	if p.dir != "" {
		return p.dir, nil
	}
	dir, err := os.Getwd()
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("the current folder was deleted: go to another one (cd)")
	} else if err != nil {
		return "", fmt.Errorf("find the current folder: %w", err)
	}
	return dir, nil
}

// useUserPolicy selects the user's own policy for the workspace where the flags name none, and reports it.
func (a *app) useUserPolicy(p *policyFlags) error {
	if len(p.files) > 0 {
		return nil
	}
	dir := p.workspace
	if dir == "" {
		var err error
		if dir, err = p.folder(); err != nil {
			return err
		}
	}
	file, of, err := ownFolders().FindPolicy(dir)
	if err != nil || file == "" {
		return err
	}
	p.files, p.userPolicy = []string{file}, file
	if !p.quiet {
		a.err.Message("the policy is %s, the user's own for %s", file, of)
	}
	return nil
}

// grantRead lets the session read its own policy, which a toolguard in the session uses, too.
func grantRead(src *policy.Source, file string) {
	for i := range src.Layers {
		if l := &src.Layers[i]; l.Authority == policy.Session && len(l.Runtime) > 0 {
			l.Runtime = append(slices.Clip(l.Runtime), policy.FSRule{Path: file, Caps: policy.Read, Optional: true, Position: policy.Position{File: policy.UserFolders}})
		}
	}
}

// ownFolders returns this user's folders.
func ownFolders() userfiles.Folders { return userfiles.Of(home(), os.Getenv) }

// defaultFolders returns the folders of a user with only the home known.
func defaultFolders(home string) []string {
	return userfiles.Of(home, func(string) string { return "" }).All()
}

// load reads and compiles the policy that the flags name, or else the user's own.
func (a *app) load(p *policyFlags, tmp string) (*policy.Compiled, error) {
	if err := a.useUserPolicy(p); err != nil {
		return nil, err
	}
	return p.load(tmp)
}

// load reads and compiles the policy that the flags name. tmp is the session's private TMPDIR, or "" without a session.
func (p *policyFlags) load(tmp string) (*policy.Compiled, error) {
	if slices.Contains(p.files, "-") {
		return nil, errors.New("a policy can't come from standard input: name a file")
	}
	dir, err := p.folder()
	if err != nil {
		return nil, err
	}
	userHome, tty, own := home(), terminal(), ownFolders().All()
	var never []string
	if !p.reads {
		never = homes()
	}
	hidden := tty == "" && controlled()
	if s := p.running; s != nil { // the session's user, not the caller
		userHome, tty, hidden, own = s.Home, s.Terminal, s.Hidden, defaultFolders(s.Home)
	} else if of := homes(); len(of) > 1 {
		own = append(own, defaultFolders(of[1])...)
	}
	var files policyfile.Files = hostfs.Machine{}
	if p.edited != nil {
		files = p.edited
	} else if p.snapshot != nil {
		files = p.snapshot
	}
	src, doc, err := policyfile.Load(policyfile.Request{
		Policies: slices.Concat(p.presets, p.files), AddDetected: p.presets != nil, HostDir: hostPolicies,
		Tool: p.tool, Agent: p.agent, Profile: p.caller.profile, Provider: p.caller.provider, Group: p.caller.group, Depth: int(p.caller.depth),
		Environment: p.caller.environment, DefaultEnvironment: p.caller.defaultEnvironment,
		Workspace: p.workspace, NeverHome: never, Limits: p.limits, Command: p.command, NoDetect: p.noDetect,
		System: runtime.GOOS, Dir: dir, Home: userHome, Path: searchPath(), TmpDir: tmp, Terminal: tty, HideTTY: hidden,
	}, files)
	if err != nil {
		return nil, err
	}
	p.document = doc
	src.Own = own
	if p.userPolicy != "" {
		grantRead(src, p.userPolicy)
	}
	if p.ensure {
		if err := policyfile.Ensure(src); err != nil {
			return nil, err
		}
	}
	for _, file := range p.own {
		if !filepath.IsAbs(file) {
			file = dir + "/" + file // not cleaned: what ".." means depends on symlinks
		}
		if !slices.Contains(src.Files, file) {
			src.Files = append(src.Files, file)
		}
	}
	c, err := policy.Compile(src, hostfs.Machine{})
	if err != nil {
		return nil, err
	}
	return c, checkSyscalls(c)
}

// home returns the user's home folder, or "" where there's none.
func home() string {
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		return h
	}
	return ""
}

// homes returns the home and, under sudo, that of the calling user, whose projects are the workspaces; "/" where none is known.
func homes() []string {
	list := []string{cmp.Or(home(), "/")}
	if id := os.Getenv("SUDO_UID"); id != "" && os.Geteuid() == 0 {
		if u, err := user.LookupId(id); err == nil && filepath.IsAbs(u.HomeDir) {
			list = append(list, u.HomeDir)
		}
	}
	return list
}

// containsHome reports whether a home is in a folder, or is it.
func containsHome(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	return err == nil && slices.ContainsFunc(homes(), func(home string) bool {
		home, gone := filepath.EvalSymlinks(home)
		return dir == "/" || gone == nil && strings.HasPrefix(home+"/", dir+"/")
	})
}

// searchPath is the list of folders for programs: PATH, or where execvp looks without one.
func searchPath() string {
	if p, ok := os.LookupEnv("PATH"); ok {
		return p
	}
	return "/usr/bin:/bin"
}

// terminal returns the terminal that one of the three standard streams is, or "". Only Linux has it in /proc.
func terminal() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	for _, fd := range []string{"0", "1", "2"} {
		if name, err := os.Readlink("/proc/self/fd/" + fd); err == nil && (strings.HasPrefix(name, "/dev/pts/") || strings.HasPrefix(name, "/dev/tty")) {
			return name
		}
	}
	return ""
}

// controlled reports whether there is a controlling terminal. When none of the three standard streams is one, its input is
// for other programs.
func controlled() bool {
	tty, err := syscall.Open("/dev/tty", syscall.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == nil {
		_ = syscall.Close(tty)
	}
	return err == nil
}

// most is the most of a file that fmt reads.
const most = 1 << 20

// readFile reads a file, or standard input for "-".
func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(io.LimitReader(a.in, most+1))
		if err == nil && len(text) > most {
			err = fmt.Errorf("standard input has more than %d bytes", most)
		}
		return text, err
	}
	return hostfs.Machine{}.Read(name, most+1)
}

// completePolicy completes presets and TOML files.
func completePolicy(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if strings.HasPrefix("preset:", typed) && typed != "" || strings.HasPrefix(typed, "preset:") {
		var names []string
		for _, p := range policyfile.Presets() {
			names = append(names, p.Name+"\t"+p.Doc)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"toml"}, cobra.ShellCompDirectiveFilterFileExt
}

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "%q is an argument, and the command has none", args[0])
	}
	return nil
}

// environNames returns the names of the variables in env.
func environNames(env []string) []string {
	var names []string
	for _, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok && name != "" {
			names = append(names, name)
		}
	}
	return names
}
