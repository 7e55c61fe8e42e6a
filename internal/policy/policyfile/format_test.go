package policyfile

import (
	"testing"
)

func TestFormat(t *testing.T) {
	const from = `

# What it's for.


version=1   # the only one
name   =   'x'
extends = [ "a.toml" ,
"b.toml" , # the second

  # all of them
     "c.toml"
  ]
# The grants.
[ access ]

default={net="deny",fs="deny"}
[[access.fs]]
path="."
  read   = true


write = true
[[ access . fs ]]
path = """
a
  b"""
[access.commands."/bin/x y"]
args=[["a","**"],[]]
[limits]#here
when = 1979-05-27 07:32:00
`
	const want = `# What it's for.

version = 1 # the only one
name = 'x'
extends = ["a.toml",
  "b.toml", # the second

  # all of them
  "c.toml"
]

# The grants.
[access]
default = { net = "deny", fs = "deny" }

[[access.fs]]
path = "."
read = true

write = true

[[access.fs]]
path = """
a
  b"""

[access.commands."/bin/x y"]
args = [["a", "**"], []]

[limits] #here
when = 1979-05-27 07:32:00
`
	got, err := Format("p.toml", []byte(from))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
	again, err := Format("p.toml", got)
	if err != nil || string(again) != want {
		t.Errorf("the second time: %v\n%s", err, again)
	}
	if _, err := Format("p.toml", []byte("a = = 1")); err == nil || err.Error() != "p.toml:1:5: not valid TOML: incomplete number" {
		t.Errorf("a mistake: %v", err)
	}
}

// The built-in files are laid out as Format would.
func TestBuiltinFilesAreFormatted(t *testing.T) {
	for _, name := range []string{"runtime", "protect", "default", "tools", "starter", "preset_readonly", "preset_python", "preset_node", "preset_go", "preset_git"} {
		got, err := Format(name, builtinText(name))
		if err != nil || string(got) != string(builtinText(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
