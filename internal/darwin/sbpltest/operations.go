package sbpltest

import (
	"slices"
	"strings"
)

// operations are the operations that the profiles of macOS 15 and 26 name (dnesting.com/2026/macos-sandbox-sbpl-reference, generated from
// macOS 26.4.1), by the kind of filters that apply to them.
var operations = func() map[string]filterKind {
	all := map[string]filterKind{}
	for k, names := range map[filterKind]string{
		onPath: `file-chroot file-clone file-graft file-ioctl file-issue-extension file-link file-map-executable file-mknod file-mount file-mount-update
			file-read-data file-read-metadata file-read-xattr file-revoke file-search file-test-existence file-ungraft file-unmount file-write-acl
			file-write-create file-write-data file-write-flags file-write-mode file-write-owner file-write-setugid file-write-times
			file-write-unlink file-write-xattr fs-snapshot-create fs-snapshot-delete fs-snapshot-mount fs-snapshot-revert
			process-exec process-exec-interpreter`,
		onNetwork: `network-bind network-inbound network-outbound`,
		onMach: `mach-lookup mach-register mach-cross-domain-lookup mach-per-user-lookup mach-bootstrap mach-host-exception-port-set
			mach-host-special-port-set mach-issue-extension mach-kernel-endpoint mach-priv-host-port mach-priv-task-port mach-task-inspect
			mach-task-name mach-task-read mach-task-special-port-set`,
		onSysctl: `sysctl-read sysctl-write`,
		onProcess: `signal process-info-codesignature process-info-dirtycontrol process-info-listpids process-info-pidfdinfo
			process-info-pidfileportinfo process-info-pidinfo process-info-rusage process-info-setcontrol`,
		onPosixName: `ipc-posix-issue-extension ipc-posix-sem ipc-posix-shm-read-data ipc-posix-shm-read-metadata
			ipc-posix-shm-write-create ipc-posix-shm-write-data ipc-posix-shm-write-unlink`,
		onSocket:     `system-socket`,
		onIOKit:      `iokit-get-properties iokit-issue-extension iokit-open iokit-open-service iokit-open-user-client iokit-set-properties`,
		onPreference: `user-preference-read user-preference-write managed-preference-read`,
		onNothing: `appleevent-send authorization-right-obtain boot-arg-set darwin-notification-post device-camera device-microphone
			distributed-notification-post dynamic-code-generation generic-issue-extension hid-control ipc-sysv-msg ipc-sysv-sem ipc-sysv-shm
			job-creation load-unsigned-code lsopen necp-client-open nvram-delete nvram-get nvram-set opendirectory-user-modify process-fork
			process-exec-update-label process-codesigning-status-get process-codesigning-status-set pseudo-tty socket-ioctl socket-option-get
			socket-option-set syscall-mach syscall-mig syscall-unix system-acct system-audit system-automount system-chud system-debug system-fcntl system-fsctl system-info
			system-kext-load system-kext-query system-kext-unload system-lcid system-mac-label system-mac-syscall system-nfssvc
			system-package-check system-privilege system-reboot system-sched system-set-time system-suspend-resume system-swap`,
	} {
		for _, name := range strings.Fields(names) {
			all[name] = k
		}
	}
	return all
}()

// families are the operations that stand for several; each also stands for those of its beginning.
var families = strings.Fields(`file* fs-snapshot* file-read* file-write* file-mount* network* mach* mach-host* mach-priv* mach-task* process*
	process-exec* process-info* process-codesigning* ipc* ipc-posix* ipc-posix-shm* ipc-posix-shm-read* ipc-posix-shm-write* ipc-sysv*
	sysctl* system* system-kext* iokit* nvram* device* user-preference* socket-option*`)

// allowedAtFirst are the operations and families that (version 1) allows before the first rule of a profile.
var allowedAtFirst = strings.Fields(`dynamic-code-generation file-clone file-graft file-link file-map-executable file-test-existence
	file-ungraft fs-snapshot-mount iokit-get-properties nvram* process-info* syscall-mach syscall-mig syscall-unix system-fcntl`)

// newer are the operations that macOS 14 and 15 don't know.
var newer = []string{"file-graft", "file-ungraft"}

// isFamily reports whether an operation stands for several.
func isFamily(op string) bool { return strings.HasSuffix(op, "*") }

// includes reports whether a rule for op is about the operation one, which isn't a family.
func includes(op, one string) bool {
	return op == one || isFamily(op) && strings.HasPrefix(one, op[:len(op)-1])
}

// known returns the kind of filters of an operation or a family; ok is false if there is none of that name.
func known(op string) (k filterKind, ok bool) {
	if !isFamily(op) {
		k, ok = operations[op]
		return k, ok
	}
	if !slices.Contains(families, op) {
		return 0, false
	}
	for name, of := range operations {
		if includes(op, name) {
			k |= of
		}
	}
	return k, true
}

// names has an operation and its families, the narrowest first, by the operation.
var names = func() map[string][]string {
	out := map[string][]string{}
	for op := range operations {
		all := []string{op}
		for _, f := range families {
			if includes(f, op) {
				all = append(all, f)
			}
		}
		slices.SortStableFunc(all[1:], func(a, b string) int { return len(b) - len(a) })
		out[op] = all
	}
	return out
}()
