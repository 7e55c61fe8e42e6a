// Package imports writes the policies of other systems as policies of toolguard's.
//
// The result is equivalent where the language has an equivalent, else narrower, and never wider:
//
//   - What is allowed and has no equivalent is left out.
//   - What is denied and has no equivalent denies more: a wider pattern, the whole tool, or each tool of the stage.
//   - Where the source is open by default, the policy has the stricter choice as a key of its own, with a comment.
//
// Whatever isn't taken over as it is has a line in Result.Left. Comments name the file and the key that each rule comes from.
//
// The input is hostile: its size, depth and number of values are bounded, keys that are given twice are errors, and so are values of the
// wrong type. Nothing of it is written but names, paths and patterns, each quoted. Pure: it reads no files.
package imports
