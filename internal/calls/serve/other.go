//go:build !linux

package serve

import (
	"errors"
	"os"
)

var errUnsupported = errors.New("sessions serve no calls on this system: Linux is needed")

// Outside returns an error.
func (s *Server) Outside([]string) (string, error) { return "", errUnsupported }

// Inside returns an error.
func (s *Server) Inside(string) (string, error) { return "", errUnsupported }

// Descriptor returns an error.
func (s *Server) Descriptor() (*os.File, error) { return nil, errUnsupported }
