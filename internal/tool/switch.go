package tool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// NotEnforced returns a key of the policy that gate doesn't enforce; nil for none. It doesn't know with which arguments a call ran, so it runs no hook
// after one.
func NotEnforced(c *policy.Compiled) *policy.Key {
	for i, k := range c.ToolKeys {
		if strings.TrimPrefix(k.ID, "host.") == "hooks.after_tool_call" || !k.OnCalls() {
			return &c.ToolKeys[i]
		}
	}
	return nil
}

// Switch applies --gate and TOOLGUARD_GATE to the settings of the gate. A project's files can set the variable, so it only makes the gate stricter.
func Switch(g *toolset.Gate, flag, variable string) error {
	for _, x := range []struct{ name, value string }{{"TOOLGUARD_GATE", variable}, {"--gate", flag}} {
		switch x.value {
		case "":
		case "on", "strict":
			g.Enabled = true
			g.Strict = g.Strict || x.value == "strict"
		case "off":
			if x.name != "--gate" {
				return errors.New("TOOLGUARD_GATE can be on or strict: only --gate off turns the gate off")
			}
			if g.Host {
				return errors.New("--gate off: the host's policy turns the gate on, and only root can change that")
			}
			g.Enabled = false
		default:
			return fmt.Errorf("%s is %q, and not on, off or strict", x.name, x.value)
		}
	}
	return nil
}
