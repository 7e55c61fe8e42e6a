// Package darwin compiles a policy into a Seatbelt profile (SBPL) with parameters, and reports how far the profile enforces it. This part
// of the package is pure: it renders the same profile on every system.
//
// # How a profile decides
//
// Nothing is allowed by default. Of several rules for one operation the last that matches decides. A rule for a class of operations
// (file-read*) and one for a single operation decide in an order that differs between releases of macOS, and a rule without a filter can't
// undo one with a filter: a profile here has only single operations, and a filter in each rule of the policy.
//
// The rules of all layers are rendered together, so that the profile decides by their intersection. A point is the path of a literal rule, or
// the BASE of a pattern. What a layer allows beneath a point, above the next point, depends only on the point and on which patterns
// match beneath the point. So for each point, from the top down, there is one rule for the point and everything beneath, and then one for each
// combination of patterns that decides otherwise. A regular expression for a pattern begins with as many components as the point has, so
// that it matches beneath the point alone.
//
// # Paths
//
// No path of a policy is part of the profile's text: paths and regular expressions are parameters. Paths beneath /private/tmp, /private/var and
// /private/etc are there in both spellings. A path beneath /System/Volumes/Data is canonical without that prefix; with it, everything is denied.
// Volumes of macOS usually ignore the case of names. A rule that denies therefore matches in any case, and a rule that grants exactly.
//
// # Renames and links
//
// Seatbelt decides on the two names of a rename separately. So that nothing gains a capability by a rename:
//   - what can't be read can't be deleted, renamed, linked or cloned, and a link needs every capability that a new file can have somewhere;
//   - the folders above a rule, and those that are a part of a pattern (.git of **/.git/hooks), can't be removed, renamed or cloned, nor
//     created where a folder with other content could take their place;
//   - a pattern that takes something away also applies in other folders where files can be created, because a folder can be moved there; so
//     do secrets in the private TMPDIR and in the folders of caches that built-in rules grant.
//
// # Threats
//
// The confined process has our source and chooses every path, its case and its links. The author of a policy is trusted, the names in it are
// not: a name can't end a string or a regular expression. [StatedGaps] lists what no profile can enforce.
package darwin
