package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"ramet.dev/native/link/internal/fault"
)

// mapIDs makes the caller root of the new user namespace, and maps no other id, also where the caller has subordinate
// ones: a file that one of those owned could not be removed by the caller afterwards.
func mapIDs(pid int) error {
	// Without a privilege outside, a group may be mapped only where setgroups(2) is given up (user_namespaces(7)).
	proc := fmt.Sprintf("/proc/%d/", pid)
	for _, write := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("0 %d 1", os.Geteuid())},
		{"gid_map", fmt.Sprintf("0 %d 1", os.Getegid())},
	} {
		if err := os.WriteFile(proc+write.file, []byte(write.text), 0); err != nil {
			return refusal(true, err)
		}
	}
	return nil
}

// refusal says which of the many switches refused the namespaces, and how to turn it.
func refusal(userNamespace bool, err error) *fault.Fault {
	const what = "Making the namespaces of a pod failed: %v"
	if !userNamespace {
		return fault.New("HostUnsupported", "Run it with CAP_SYS_ADMIN, or as an ordinary user", what, err)
	}
	if name, hint := switchedOff(); name != "" {
		return fault.New("HostUnsupported", hint, what+", because of the sysctl %s", err, name)
	}
	hint := "Allow user namespaces for this user, or run as root"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) {
		hint = "Raise the sysctl user.max_user_namespaces: too many are in use"
	}
	return fault.New("HostUnsupported", hint, what+" (seccomp, a container's profile or chroot may refuse user namespaces)", err)
}

// switchedOff names the sysctl that keeps ordinary users from user namespaces here, and says what to do.
func switchedOff() (name, hint string) {
	for _, s := range []struct{ name, off, hint string }{
		{"user.max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
		{"kernel.unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{appArmorSwitch, "1", "sysctl -w " + appArmorSwitch + "=0, or give ramet-link an AppArmor profile with `userns,`"},
	} {
		if sysctl(s.name) == s.off {
			return s.name + "=" + s.off, "As root: " + s.hint
		}
	}
	return "", ""
}

// appArmorSwitch, as Ubuntu sets it since 23.10, takes all capabilities away inside a user namespace: making it succeeds,
// and the first mount in it does not.
const appArmorSwitch = "kernel.apparmor_restrict_unprivileged_userns"

func sysctl(name string) string {
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func line(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "{}"
	}
	return string(text)
}
