package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ramet.dev/native/guest/internal/envdtest/processpb"
)

const (
	clientUID    = 12001
	containerUID = 12002
)

// withUser returns an /etc/passwd with the user of E2B's images, and that user's home.
func withUser(t *testing.T) (passwd, home string) {
	t.Helper()
	home = t.TempDir()
	must(t, os.Chmod(filepath.Dir(home), 0o755))
	must(t, os.Chown(home, clientUID, clientUID))
	return fmt.Sprintf("%suser:x:%d:%d::%s:/bin/sh\n", withoutUser, clientUID, clientUID, home), home
}

var withoutUser = fmt.Sprintf("root:x:0:0::/root:/bin/sh\napp:x:%d:%d::/var:/bin/sh\n", containerUID, containerUID)

// whoami runs a command as an SDK does that names this user, or none.
func whoami(t *testing.T, g *guest, user string) string {
	t.Helper()
	command := &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", `echo $(id -u) $USER $HOME $(pwd)`}}
	return strings.TrimSpace(runCommand(t, g.processesAs(user), &processpb.StartRequest{Process: command}).stdout)
}

func TestCallWithoutAUserMeansTheUserOfE2B(t *testing.T) {
	passwd, home := withUser(t)
	user := fmt.Sprintf("%d user %s", clientUID, home)
	app := fmt.Sprintf("%d app /var", containerUID)
	for name, test := range map[string]struct {
		passwd, cwd, user, want string
	}{
		"user":                                {passwd, "", "", user + " " + home},
		"user in the image's directory":       {passwd, "/usr", "", user + " /usr"},
		"no directory":                        {passwd, "/", "", user + " " + home},
		"another user, no directory":          {passwd, "/", "root", "0 root /root /root"},
		"the container's user":                {passwd, "", ofContainer, app + " /var"},
		"the container's user and directory":  {passwd, "/", ofContainer, app + " /"},
		"an image without user":               {withoutUser, "", "", app + " /var"},
		"an image without user and directory": {withoutUser, "/", "", app + " /var"},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGuestWithUsers(t, test.passwd, "--uid", fmt.Sprint(containerUID), "--gid", fmt.Sprint(containerUID), "--cwd", test.cwd)
			g.init(nil)
			if got := whoami(t, g, test.user); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestEnvdsInitSetsTheUserAndTheDirectoryOfCallsWithoutThem(t *testing.T) {
	passwd, _ := withUser(t)
	g := startGuestWithUsers(t, passwd, "--uid", fmt.Sprint(containerUID), "--gid", fmt.Sprint(containerUID))
	g.init(nil)
	for body, want := range map[string]int{
		`{"accessToken":"secret","defaultUser":"nobody-of-that-name"}`:          400,
		`{"accessToken":"secret","defaultUser":"root","defaultWorkdir":"/usr"}`: 204,
	} {
		if status, text := g.http("POST", "/init", strings.NewReader(body)); status != want {
			t.Fatal(status, text)
		}
	}
	if got, want := whoami(t, g, ""), "0 root /root /usr"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := whoami(t, g, ofContainer), fmt.Sprintf("%d app /var %s", containerUID, g.dir); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// They are part of a snapshot's memory.
	g.init(map[string]any{"generation": 2, "clone": true})
	if got, want := whoami(t, g, ""), "0 root /root /usr"; got != want {
		t.Errorf("a clone: %q, want %q", got, want)
	}
}

func TestUploadedFileBelongsToTheClientsUser(t *testing.T) {
	passwd, home := withUser(t)
	g := startGuestWithUsers(t, passwd, "--cwd", "")
	g.init(nil)
	owned := filepath.Join(home, "owned")
	must(t, os.WriteFile(owned, nil, 0o644))
	must(t, os.Chown(owned, containerUID, containerUID))
	upload := func(path, user string, header ...string) {
		query := "/files?path=" + url.QueryEscape(path) + "&username=" + user
		header = append(header, "X-Access-Token", "secret")
		if status, text := g.http("POST", query, strings.NewReader("x"), header...); status != 200 {
			t.Fatal(status, text)
		}
	}
	// Ramet's own tools leave a file to its owner.
	upload(owned, "", "Authorization", "Basic Og==")
	wantOwner(t, owned, containerUID)
	upload("new/file", "")
	wantOwner(t, filepath.Join(home, "new/file"), clientUID)
	wantOwner(t, filepath.Join(home, "new"), clientUID)
	upload(owned, "")
	wantOwner(t, owned, clientUID)
	upload(owned, "root")
	wantOwner(t, owned, 0)
}

func wantOwner(t *testing.T, path string, uid uint32) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Sys().(*syscall.Stat_t).Uid; got != uid {
		t.Errorf("%s belongs to %d, want %d", path, got, uid)
	}
}
