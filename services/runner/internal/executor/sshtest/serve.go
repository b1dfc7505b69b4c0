// Package sshtest runs Debian's OpenSSH server for tests. It needs root, for a mount namespace in which the server finds
// its users, and apt, which downloads the server once into a cache.
package sshtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is an sshd that lives until its test ends. Its one user is git, whose home is Home.
type Server struct {
	// Address is host:port, on loopback.
	Address string
	// Home is where relative paths of repositories begin.
	Home string

	t      testing.TB
	folder string
	daemon *exec.Cmd
}

// Start starts a server with a host key of each kind (rsa, ed25519, ecdsa).
func Start(t testing.TB, cache string, kinds ...string) *Server {
	t.Helper()
	s := &Server{t: t, folder: t.TempDir()}
	s.Home = filepath.Join(s.folder, "home")
	s.must(os.Mkdir(s.Home, 0o755))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.Address = listener.Addr().String()
	s.must(listener.Close())
	for _, kind := range kinds {
		s.keygen("host-"+kind, kind)
	}
	s.run(cache, kinds)
	t.Cleanup(s.stop)
	return s
}

// NewKey makes a key pair that may log in from now on, and returns the private key.
func (s *Server) NewKey() string {
	s.t.Helper()
	name := s.keygen(fmt.Sprintf("user-%d", time.Now().UnixNano()), "ed25519")
	public, err := os.ReadFile(name + ".pub")
	s.must(err)
	file, err := os.OpenFile(filepath.Join(s.folder, "authorized"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	s.must(err)
	_, err = file.Write(public)
	s.must(err)
	s.must(file.Close())
	private, err := os.ReadFile(name)
	s.must(err)
	return string(private)
}

// KnownHosts returns the lines of known_hosts with the server's keys of the kinds.
func (s *Server) KnownHosts(kinds ...string) string {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.Address)
	s.must(err)
	var lines strings.Builder
	for _, kind := range kinds {
		public, err := os.ReadFile(filepath.Join(s.folder, "host-"+kind+".pub"))
		s.must(err)
		fmt.Fprintf(&lines, "[%s]:%s %s\n", host, port, strings.TrimSpace(string(public)))
	}
	return lines.String()
}

// Fingerprint of the host key of a kind.
func (s *Server) Fingerprint(kind string) string {
	s.t.Helper()
	out, err := exec.Command("ssh-keygen", "-l", "-f", filepath.Join(s.folder, "host-"+kind+".pub")).Output()
	s.must(err)
	return strings.Fields(string(out))[1]
}

func (s *Server) keygen(name, kind string) string {
	s.t.Helper()
	name = filepath.Join(s.folder, name)
	out, err := exec.Command("ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", name).CombinedOutput()
	if err != nil {
		s.t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	return name
}

func (s *Server) run(cache string, kinds []string) {
	s.t.Helper()
	binary, libraries := install(s.t, cache)
	_, port, err := net.SplitHostPort(s.Address)
	s.must(err)
	config := fmt.Sprintf("Port %s\nListenAddress 127.0.0.1\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\n", port,
		filepath.Join(s.folder, "authorized"))
	for _, kind := range kinds {
		config += "HostKey " + filepath.Join(s.folder, "host-"+kind) + "\n"
	}
	s.must(os.WriteFile(filepath.Join(s.folder, "config"), []byte(config), 0o600))
	users := "root:x:0:0:root:/root:/bin/sh\ngit:x:0:0::" + s.Home + ":/bin/sh\nsshd:x:74:74::/run/sshd:/bin/false\n"
	s.must(os.WriteFile(filepath.Join(s.folder, "passwd"), []byte(users), 0o644))
	log, err := os.Create(filepath.Join(s.folder, "log"))
	s.must(err)
	defer func() { _ = log.Close() }()
	// What is mounted is seen by the server alone.
	s.daemon = exec.Command("sh", "-ec", `mount --make-rprivate / && mount --bind "$1/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd &&
exec "$2" -D -e -f "$1/config"`, "sh", s.folder, binary)
	s.daemon.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
	s.daemon.Stdout, s.daemon.Stderr = log, log
	s.daemon.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	s.must(s.daemon.Start())
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("tcp", s.Address)
		if err == nil {
			_ = connection.Close()
			return
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			s.t.Fatalf("sshd does not listen: %v\n%s", err, said)
		}
	}
}

func (s *Server) stop() {
	_ = s.daemon.Process.Kill()
	_ = s.daemon.Wait()
	if s.t.Failed() {
		said, _ := os.ReadFile(filepath.Join(s.folder, "log"))
		s.t.Logf("sshd said:\n%s", said)
	}
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// install unpacks Debian's server into the cache, beside the machine's own libraries.
func install(t testing.TB, cache string) (binary, libraries string) {
	t.Helper()
	root := filepath.Join(cache, "openssh-server")
	binary = filepath.Join(root, "usr", "sbin", "sshd")
	found := func() string {
		matches, _ := filepath.Glob(filepath.Join(root, "usr", "lib", "*", "libwrap.so.0"))
		if _, err := os.Stat(binary); err != nil || len(matches) == 0 {
			return ""
		}
		return filepath.Dir(matches[0])
	}
	if libraries = found(); libraries != "" {
		return binary, libraries
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	staging, err := os.MkdirTemp(cache, ".openssh-server-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(staging) }()
	script := `apt-get download -q openssh-server libwrap0 || { apt-get update -q; apt-get download -q openssh-server libwrap0; }
for package in *.deb; do dpkg-deb -x "$package" tree; done`
	unpack := exec.Command("sh", "-ec", script)
	unpack.Dir = staging
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("getting Debian's openssh-server: %v\n%s", err, out)
	}
	if err := os.Rename(filepath.Join(staging, "tree"), root); err != nil && found() == "" {
		t.Fatal(err)
	}
	if libraries = found(); libraries == "" {
		t.Fatalf("%s has no sshd", root)
	}
	return binary, libraries
}
