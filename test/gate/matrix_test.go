//go:build linux

package gate

import (
	"encoding/json"
	"fmt"
	"strings"
)

// matrixTool is a tool that gets each path of a matrix:
//
//	tool NAME PARAMETER CAPABILITY [FURTHER ARGUMENTS]
type matrixTool struct {
	name, parameter, capability string
	arguments                   string
}

func parseMatrixTool(line string) (m matrixTool) {
	f := strings.SplitN(line, " ", 5)
	m.name, m.parameter, m.capability = f[1], f[2], f[3]
	if len(f) == 5 {
		m.arguments = f[4]
	}
	return m
}

// parseForm reads a row of a matrix: DECISION … | PATH, as JSON.
func parseForm(line string, tools []matrixTool) (rows []row, err error) {
	head, path, ok := strings.Cut(line, " | ")
	if !ok || len(tools) == 0 {
		return nil, fmt.Errorf("no path, or no tool, in %q", line)
	}
	for _, m := range tools {
		var r row
		if err := r.parseHead(head); err != nil {
			return nil, err
		}
		r.tool = m.name
		exists := m.capability == "create" && r.decision == "deny" // which may need update
		if r.decision != "ask" && r.decision != "!allow" && !exists {
			r.capability = m.capability
		}
		arguments := map[string]json.RawMessage{}
		if m.arguments != "" {
			if err := json.Unmarshal([]byte(m.arguments), &arguments); err != nil {
				return nil, err
			}
		}
		arguments[m.parameter] = json.RawMessage(strings.ReplaceAll(path, "␠", " "))
		if r.arguments, err = json.Marshal(arguments); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}
