// Package toolset is the tool layer of a policy: which tools exist, who may see them, and what their calls may do. It is data that
// package policyfile has read, merged by author and checked; the packages beneath internal/tool decide by it.
//
// There is one Layer for each author. The host's comes first. Layers are never merged with each other: what decides runs the
// stages of each, and takes the stricter of two settings. A session's file therefore can't widen what the host's files say.
//
// Names of tools are compared in their normal form (Normal). A pattern is a name, a name with "*" for any run of characters, or
// "group:NAME". Groups are resolved when a pattern is matched; policyfile has rejected cycles and unknown groups.
package toolset
