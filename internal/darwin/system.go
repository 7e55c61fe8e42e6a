package darwin

// systemPart is what every program needs, whatever the policy is. What a service of launchd does for a program isn't decided by this profile, so
// the list has none that opens files, starts programs or uses the network for a client. Everything's metadata is visible.
const systemPart = `(version 1)
(deny default)

; what (version 1) allows before the first rule: (deny default) and rules for a family don't take it back
(deny process-info*)
(deny nvram*)
(deny iokit-get-properties)
(deny file-map-executable)
(deny file-link)
(deny file-clone)
(deny fs-snapshot-mount)
(if (defined? 'file-graft) (deny file-graft))
(if (defined? 'file-ungraft) (deny file-ungraft))

; processes of the session
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))

; metadata is visible; the list of the root folder is read whenever a program starts
(allow file-read-metadata file-test-existence (subpath "/"))
(allow file-read-data (literal "/"))

; facts of the machine
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name-prefix "security.mac.lockdown_mode_state")
  (sysctl-name-prefix "sysctl.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.bootargs")
  (sysctl-name "kern.boottime")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.iossupportversion")
  (sysctl-name "kern.maxfiles")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.tcsm_available")
  (sysctl-name "kern.tcsm_enable")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "kern.willshutdown")
  (sysctl-name "machdep.ptrauth_enabled")
  (sysctl-name "vm.loadavg")
  (sysctl-name "vm.pagesize")
  )

; services: names of users and groups, logging, notifications, power. Not here: keychains, launchd and LaunchServices, Apple events,
; pasteboard, trustd and DNS, which use the network
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.logd")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.PowerManagement.control")
  )
(allow ipc-posix-shm-read-data (ipc-posix-name "apple.shm.notification_center"))
(allow ipc-posix-sem)

; terminals: their modes and their size, and not to type into them
(allow pseudo-tty)
(allow file-ioctl
  (literal "/dev/tty")
  (literal "/dev/ptmx")
  (regex #"^/dev/ttys[0-9]+$")
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/random")
  (literal "/dev/urandom")
  (literal "/dev/dtracehelper")
  )
(deny file-ioctl (ioctl-command TIOCSTI))`

// openNetworkPart is what programs need to resolve names and to check certificates, where every host is allowed.
const openNetworkPart = `(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.dnssd.service")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd.agent")
  )`

// lastPart comes last. The kernel reports the files of the data volume without that prefix.
const lastPart = `
; the long names of the data volume, and devices
(deny file-read-data file-read-xattr process-exec process-exec-interpreter file-map-executable file-write-create file-write-data file-write-mode
  file-write-flags file-write-times file-write-xattr file-write-acl file-write-owner file-write-unlink file-link file-clone
  network-outbound network-bind network-inbound
  (subpath "/System/Volumes/Data"))
(deny file-write-create (vnode-type BLOCK-DEVICE) (vnode-type CHARACTER-DEVICE))`
