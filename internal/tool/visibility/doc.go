// Package visibility decides which tools a model sees. It is pure: a policy's tool layer, a caller and a list of tools in, the same
// tools with what removed each out.
//
// The stages run in a fixed order, those of the host's files before those of the session's. A stage only removes tools. Each tool
// is checked alone, with one exception: a tool passes a list of allowed tools if another tool implies it and has passed that list.
//
// # Threats
//
// The names of tools come from hosts and MCP servers, which may be hostile. A name that no policy can mean is invisible, and so is
// the later of two tools whose names are equal in the normal form. A tool of an MCP server is known by its full name in lists of
// allowed tools, so that a server can't use the name of a tool that is allowed; what denies also compares the bare name.
//
// Visibility binds a model whose host asks. A host that doesn't ask is bound by the grants of its policy alone, which the kernel
// enforces.
package visibility
