package gittest

import (
	"crypto/ed25519"
	"io"
	"net"
	"os/exec"
	"testing"

	"golang.org/x/crypto/ssh"
)

// ServeGit serves the repositories below root by the git protocol on loopback and returns its address.
func ServeGit(t testing.TB, root string) string {
	t.Helper()
	return serve(t, func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		// git daemon in inetd mode: one connection on its standard streams.
		command := exec.Command("git", "daemon", "--inetd", "--export-all", "--base-path="+root, "--informative-errors")
		command.Env = environment()
		file, err := conn.(*net.TCPConn).File()
		if err != nil {
			return
		}
		defer func() { _ = file.Close() }()
		command.Stdin, command.Stdout = file, file
		_ = command.Run()
	})
}

// ServeSSH serves the repositories at their absolute paths over ssh on loopback, lets everybody in, and returns its address.
func ServeSSH(t testing.TB) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	return serve(t, func(conn net.Conn) { serveSSHConn(conn, config) })
}

func serveSSHConn(conn net.Conn, config *ssh.ServerConfig) {
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go serveSession(channel, requests)
	}
}

func serveSession(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for request := range requests {
		if request.Type != "exec" {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		var exec struct{ Command string }
		if ssh.Unmarshal(request.Payload, &exec) == nil {
			code := runShell(exec.Command, channel)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
		}
		return
	}
}

// runShell runs the command as sshd does: by a shell, so that the client's quoting counts.
func runShell(line string, channel ssh.Channel) uint32 {
	command := exec.Command("sh", "-c", line)
	command.Env = environment()
	command.Stdout, command.Stderr = channel, channel.Stderr()
	stdin, err := command.StdinPipe()
	if err != nil || command.Start() != nil {
		return 255
	}
	go func() {
		_, _ = io.Copy(stdin, channel)
		_ = stdin.Close()
	}()
	if command.Wait() != nil {
		return 128
	}
	return 0
}

func serve(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go handle(conn)
		}
	}()
	return listener.Addr().String()
}
