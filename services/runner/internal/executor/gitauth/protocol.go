package gitauth

import (
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// Questions that the agent answers.
const (
	// opLogin asks for the user and the password of a URL.
	opLogin = "login"
	// opRefused tells that the host did not accept them.
	opRefused = "refused"
	// opKey asks for the ssh key of a URL.
	opKey = "key"
	// opNote tells what ssh found out about a URL.
	opNote = "note"
)

// patience bounds one question. Getting a token of a GitHub App is a request to its API.
const patience = time.Minute

type question struct {
	Op string `json:"op"`
	// URL of the repository, in any spelling.
	URL string `json:"url"`
	// Note is for people.
	Note string `json:"note,omitempty"`
}

type answer struct {
	// Username and Password answer opLogin; empty where there are none.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// Secret answers opKey, with the socket of an ssh agent that has the key and the file of the known hosts, which is empty when
	// hosts are not verified.
	// All are empty where there is no key.
	Secret     string `json:"secret,omitempty"`
	Agent      string `json:"agent,omitempty"`
	KnownHosts string `json:"knownHosts,omitempty"`
	// Error says why there is no answer although there should be one.
	Error string `json:"error,omitempty"`
}

// ask puts one question to the agent that listens at socket.
func ask(socket string, q question) (answer, error) {
	connection, err := net.DialTimeout("unix", socket, patience)
	if err != nil {
		return answer{}, fmt.Errorf("asking keeper for a credential: %w", err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return answer{}, fmt.Errorf("asking keeper for a credential: %w", err)
	}
	if err := json.NewEncoder(connection).Encode(q); err != nil {
		return answer{}, fmt.Errorf("asking keeper for a credential: %w", err)
	}
	var a answer
	if err := json.NewDecoder(connection).Decode(&a); err != nil {
		return answer{}, fmt.Errorf("asking keeper for a credential: %w", err)
	}
	return a, nil
}
