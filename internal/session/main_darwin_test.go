package session

import (
	"os"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/session/launch"
)

var must = childtest.Must

func TestMain(m *testing.M) {
	runAsProgram()
	os.Exit(m.Run())
}

func testProcesses(*testing.T) func() ([]launch.ProcessRow, error) { return launch.ProcessTable }
