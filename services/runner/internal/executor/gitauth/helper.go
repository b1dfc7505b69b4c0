package gitauth

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Arguments with which this binary is started by git instead of by a container.
const (
	// ArgHelper makes it a credential helper: ArgHelper, the agent's socket, then what git adds.
	ArgHelper = "git-credential"
	// ArgSSH makes it stand for ssh: ArgSSH, the agent's socket, then ssh's arguments.
	ArgSSH = "git-ssh"
)

// Commands returns what git is to call for credentials and in place of ssh. self is how this binary is started.
func (a *Agent) Commands(self string) (helper, ssh string) {
	return quote(self) + " " + ArgHelper + " " + quote(a.socket()), quote(self) + " " + ArgSSH + " " + quote(a.socket())
}

// quote is for the shell through which git calls both. A plain word stays: git looks at its first character.
func quote(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("/._-+", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Called says whether the arguments, without the program's name, are those of git, and plays the part if so.
func Called(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, called bool) {
	if len(args) < 3 {
		return 0, false
	}
	switch args[0] {
	case ArgHelper:
		return help(args[1], args[2], stdin, stdout, stderr), true
	case ArgSSH:
		return dial(args[1], args[2:], stdin, stdout, stderr), true
	}
	return 0, false
}

// help speaks git's protocol of credential helpers: https://git-scm.com/docs/git-credential.
func help(socket, operation string, stdin io.Reader, stdout, stderr io.Writer) int {
	asked := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(stdin, maxValue))
	for lines.Scan() && lines.Text() != "" {
		key, value, _ := strings.Cut(lines.Text(), "=")
		asked[key] = value
	}
	q := question{URL: asked["protocol"] + "://" + asked["host"] + "/" + asked["path"]}
	switch operation {
	case "get":
		q.Op = opLogin
	case "erase":
		q.Op = opRefused
	default:
		return 0
	}
	a, err := ask(socket, q)
	if err == nil && a.Error != "" {
		err = fmt.Errorf("%s", a.Error)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "magos:", err)
		// Without this git would go on without a credential.
		fmt.Fprintln(stdout, "quit=1")
	case operation == "get" && a.Password != "":
		fmt.Fprintf(stdout, "username=%s\npassword=%s\n", a.Username, a.Password)
	}
	return 0
}
