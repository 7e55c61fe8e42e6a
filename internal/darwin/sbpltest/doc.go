// Package sbpltest reads a sandbox profile of macOS (SBPL) and decides operations as macOS does, so that tests on any system can compare
// a generated profile with the policy that it was generated from. It's written from what is documented and measured about macOS alone,
// not from the generator, and has no code in common with it.
//
// Parse is strict: what sandbox-exec rejects with exit status 65 is an error, and also what it accepts without effect and what no
// measurement decides. A profile that Parse rejects must not be used.
//
// # What is known
//
// Each fact has a test of its name, and this is its source. "Measured" means with sandbox-exec or sandbox_init on macOS 15, 26 or 27.
//
//   - LastMatch: of the rules with filters for one operation, the last that matches decides, allow or deny. Measured: microsoft/mxc#754,
//     SII-Holos/synergy#1440, trailofbits/skills#218.
//   - NoSpecificPath: a deeper path doesn't outrank a later rule. Measured: SII-Holos/synergy#1440.
//   - ExactOperation: rules that name the operation itself decide before rules that name a family of operations (file-read*), in any
//     order. Measured: GreyhavenHQ/greywall#20; also fencesandbox/fence#218.
//   - UnfilteredIsDefault: a rule without filters is the operation's default, wherever it stands: it doesn't undo a rule with filters.
//     Measured: microsoft/mxc#754 (allow), and with (deny network-outbound) on macOS 27.
//   - RequireAllVnodeType: an allow by require-all with vnode-type isn't undone by a later deny by subpath, but by one by literal.
//     Measured: navikt/cplt#455.
//   - AllowedAtFirst: (version 1) allows some operations before the first rule, file-link, file-clone, file-map-executable and
//     process-info* among them. (deny default) and a rule for a family don't take them back, a rule for the name does. Measured on macOS 14,
//     15 and 26, for process-info* by others on macOS 15. The profiles of Chromium (common.sb) and Firefox say the same of
//     process-info*, nvram*, iokit-get-properties and file-map-executable; WebKit denies file-clone by its name (WebKit/WebKit#63532).
//   - Releases: file-graft and file-ungraft are unknown before macOS 26. A profile names them only in (when (defined? 'NAME) …). Measured
//     on the same releases.
//   - NetworkAddress: the host of an address is "*" or "localhost", the port one number or "*"; localhost is 127.0.0.1, ::1 and 0.0.0.0,
//     not 127.0.0.2. Measured on macOS 15 and 27.
//   - RemoteIP: ip means TCP and UDP, tcp and udp one of them. Measured on macOS 15.
//   - UnixSocket: connecting to a socket by its path is network-outbound with a path, not a file operation. Measured:
//     nolabs-ai/nono#488, qntx/bux#76.
//   - UnboundVariable: an unknown operation or form is an error. Measured: ZaxbyHub/opencode-swarm#2590, also for file-write-rename.
//   - Param: a parameter is a string, not a filter by itself (measured: trailofbits/skills#218), and one without a value is an error.
//   - RegexGroups: a regular expression is a POSIX extended one. (?: matches nothing. Measured: nolabs-ai/nono#1763.
//   - RegexAnywhere: a regular expression matches anywhere in the path unless it's anchored. Blazakis, The Apple Sandbox, 2011.
//   - Rename: renaming is file-write-unlink of the old name and file-write-create of the new one, and file-write-unlink of a file that is
//     there. Measured: anthropic-experimental/sandbox-runtime#8.
//   - Link: file-link and file-clone are about the old name, file-write-create about the new one. Apple's own profiles prevent links to a
//     folder by its name in file-link (iOS 9.1, after Deshotels et al., SandScout, 2016).
//   - VnodePath: paths are those of the file system's own view, after symlinks: /private/tmp, never /tmp. Measured:
//     riboseinc/retrace#720, Protonk/sandbox-boostrap (runtime-closure).
//
// # What isn't known
//
// Model has a field for each fact that no measurement decides or about which measurements differ. A profile must be right under every
// Model.
package sbpltest
