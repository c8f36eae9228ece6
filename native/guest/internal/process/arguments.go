package process

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// maxStringBytes is the kernel's limit for one argument or variable, without its end (MAX_ARG_STRLEN of <linux/binfmts.h>).
	maxStringBytes = 128<<10 - 1
	// maxArgumentBytes is gVisor's limit for all arguments, and for all variables.
	maxArgumentBytes = 2 << 20
)

// CheckVariables returns why no command could be started with these variables.
func CheckVariables(variables map[string]string) error {
	for name, value := range variables {
		switch most := maxStringBytes - len(name) - len("="); {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return fmt.Errorf("the name of the variable %q is empty or has a NUL or an equals sign", name)
		case strings.Contains(value, "\x00"):
			return fmt.Errorf("the variable %q has a NUL", name)
		case len(value) > most:
			return fmt.Errorf("the variable %q has %d bytes; %d are the most: write it to a file", name, len(value), most)
		}
	}
	return nil
}

// check explains what the kernel would only call an invalid argument, or a file name that is too long.
func (s Spec) check() error {
	if strings.Contains(s.Command, "\x00") {
		return errors.New("the command has a NUL")
	}
	if strings.Contains(s.Dir, "\x00") {
		return errors.New("the working directory has a NUL")
	}
	for i, argument := range s.Args {
		if strings.Contains(argument, "\x00") {
			return fmt.Errorf("argument %d has a NUL", i+1)
		}
		if len(argument) > maxStringBytes {
			return fmt.Errorf("argument %d has %d bytes; %d are the most: write it to a file, or to the command's input", i+1, len(argument), maxStringBytes)
		}
	}
	for what, list := range map[string][]string{"arguments": s.Args, "variables": s.Env} {
		total := 0
		for _, text := range list {
			total += len(text) + 1
		}
		if total > maxArgumentBytes {
			return fmt.Errorf("the %s have %d bytes; %d are the most", what, total, maxArgumentBytes)
		}
	}
	return nil
}
