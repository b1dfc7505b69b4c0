package gitauth

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// withValue are ssh's options that take a value.
const withValue = "BbcDEeFIiJLlmOoPpQRSWw"

// sshFailed is how ssh ends when it, rather than the command on the other side, failed.
const sshFailed = 255

// target is what git asks ssh for.
type target struct {
	// options as git gave them, host with the user if any, command to run there.
	options             []string
	user, host, port    string
	command, repository string
}

// url is only for finding the credential: a relative path is one from the root there.
func (t target) url() string {
	user := ""
	if t.user != "" {
		user = t.user + "@"
	}
	host := strings.Trim(t.host, "[]")
	if t.port != "" {
		host = net.JoinHostPort(host, t.port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "ssh://" + user + host + "/" + escapePath(strings.TrimLeft(t.repository, "/"))
}

func escapePath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", " ", "%20").Replace(path)
}

// parseSSH reads the arguments of ssh: options, [user@]host, command.
func parseSSH(args []string) (target, error) {
	var t target
	args = t.takeOptions(args)
	if len(args) != 2 {
		return target{}, fmt.Errorf("want a host and a command, got %d arguments", len(args))
	}
	t.host, t.command = args[0], args[1]
	if at := strings.LastIndexByte(t.host, '@'); at >= 0 {
		t.user, t.host = t.host[:at], t.host[at+1:]
	}
	if t.host == "" || strings.HasPrefix(t.host, "-") {
		return target{}, fmt.Errorf("%q is no host", t.host)
	}
	_, quoted, _ := strings.Cut(t.command, " ")
	t.repository = unquote(quoted)
	return t, nil
}

// takeOptions returns what follows the options.
func (t *target) takeOptions(args []string) []string {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "--" {
			return args[1:]
		}
		n := 1
		if len(args[0]) == 2 && strings.Contains(withValue, args[0][1:]) && len(args) > 1 {
			n = 2
		}
		switch {
		case n == 2 && args[0] == "-p":
			t.port = args[1]
		case n == 2 && args[0] == "-l":
			t.user = args[1]
		default:
			t.options = append(t.options, args[:n]...)
		}
		args = args[n:]
	}
	return args
}

// unquote undoes git's quoting for a shell.
func unquote(text string) string {
	var out strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case c == '\\' && !quoted && i+1 < len(text):
			i++
			out.WriteByte(text[i])
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// dial runs the real ssh with the credential for what git asks for, and with nothing else that it could find: no
// configuration, no agent, no key of its own.
func dial(socket string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	t, err := parseSSH(args)
	if err != nil {
		fmt.Fprintln(stderr, "magos: reading what git asks ssh for:", err)
		return sshFailed
	}
	a, err := ask(socket, question{Op: opKey, URL: t.url()})
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		fmt.Fprintln(stderr, "magos:", err)
		return sshFailed
	}
	folder, err := os.MkdirTemp(filepath.Dir(socket), "ssh-")
	if err != nil {
		fmt.Fprintln(stderr, "magos:", err)
		return sshFailed
	}
	defer func() { _ = os.RemoveAll(folder) }()
	log := filepath.Join(folder, "log")
	ssh := exec.Command("ssh", sshArguments(t, a, log)...)
	ssh.Stdin, ssh.Stdout, ssh.Stderr = stdin, stdout, stderr
	err = ssh.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		fmt.Fprintln(stderr, "magos: starting ssh:", err)
		return sshFailed
	case exit.ExitCode() != sshFailed:
		return max(exit.ExitCode(), 1)
	}
	said, note := explain(t, a, log)
	fmt.Fprint(stderr, said)
	if note != "" {
		if _, err := ask(socket, question{Op: opNote, URL: t.url(), Note: note}); err != nil {
			fmt.Fprintln(stderr, "magos:", err)
		}
	}
	return sshFailed
}

func sshArguments(t target, a answer, log string) []string {
	user := t.user
	if user == "" {
		user = "git"
	}
	args := []string{
		// What ssh says goes to a file, at a level that names the host's key.
		"-F", os.DevNull, "-E", log, "-o", "LogLevel=DEBUG1", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30",
		"-o", "GlobalKnownHostsFile=" + os.DevNull, "-o", "UpdateHostKeys=no", "-o", "CheckHostIP=no",
		"-o", "IdentityFile=none", "-o", "ClearAllForwardings=yes", "-T",
	}
	if a.KnownHosts != "" {
		args = append(args, "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile="+a.KnownHosts)
	} else {
		args = append(args, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile="+os.DevNull)
	}
	if a.Agent != "" {
		args = append(args, "-o", "IdentityAgent="+a.Agent)
	} else {
		args = append(args, "-o", "IdentityAgent=none")
	}
	if t.port != "" {
		args = append(args, "-p", t.port)
	}
	args = append(args, t.options...)
	return append(args, "-l", user, "--", strings.Trim(t.host, "[]"), t.command)
}

var hostKey = regexp.MustCompile(`(?m)^debug1: Server host key: (\S+) (\S+)`)

// maxLog is far above what one connection logs at this level.
const maxLog = 256 << 10

// explain returns what ssh had to say, and what it means where it is about credentials.
func explain(t target, a answer, log string) (said, note string) {
	file, err := os.Open(log)
	if err != nil {
		return "", ""
	}
	defer func() { _ = file.Close() }()
	data, _ := io.ReadAll(io.LimitReader(file, maxLog))
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "debug") && !strings.HasPrefix(line, "OpenSSH_") && !strings.HasPrefix(line, "@@@") {
			said += line
		}
	}
	host := t.host
	if t.port != "" {
		host = net.JoinHostPort(strings.Trim(t.host, "[]"), t.port)
	}
	switch {
	case strings.Contains(said, "Host key verification failed"):
		shown := "a key"
		if found := hostKey.FindSubmatch(data); found != nil {
			shown = fmt.Sprintf("the %s key %s", found[1], found[2])
		}
		return said, fmt.Sprintf("host %s showed %s, which is not in knownHosts of Secret %s: if it is right, put it there", host, shown, a.Secret)
	case strings.Contains(said, "Permission denied") && a.Secret != "":
		return said, fmt.Sprintf("host %s did not accept the ssh key of Secret %s", host, a.Secret)
	}
	return said, ""
}
