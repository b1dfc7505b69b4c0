package refs

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// defaultPorts are the ports that need not be written, by scheme.
var defaultPorts = map[string]string{"https": "443", "http": "80", "ssh": "22", "git": "9418"}

var scpLike = regexp.MustCompile(`^(?:([^@/:]+)@)?(\[[0-9a-fA-F:.]+\]|[^@/:\[\]]+):(.+)$`)

// URL is where a repository is, reduced so that two spellings which Git itself takes for the same place are equal (==).
// Spellings that only some hosting services take for the same (with and without .git, path relative to a home or not) stay apart:
// one poll more is cheaper than the commit of another repository.
type URL struct {
	// Scheme in lower case; ssh for the user@host:path form.
	Scheme string
	// User to log in as; empty for none.
	User string
	// Host in lower case, without brackets.
	Host string
	// Port is never empty for a scheme that has a default.
	Port string
	// Path as the server is asked for it: percent-encoded for http and https, plain otherwise. Without a leading slash it is
	// relative to the home of User (ssh only). No trailing slash.
	Path string
}

// ParseURL reads a repository URL: scheme://[user@]host[:port]/path or [user@]host:path. What is no URL, holds a password, or could be
// taken for an option or a remote helper is refused with an InvalidError, which never repeats the URL. Schemes are not judged here.
func ParseURL(raw string) (URL, error) {
	u, err := parseAnyPath(raw)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		return URL{}, invalidURL("it names no path: write https://host/path, ssh://git@host/path or git@host:path")
	}
	return u, err
}

// ParsePrefix reads the beginning of repository URLs: a URL as ParseURL takes it, or scheme://[user@]host[:port] for all of a host.
func ParsePrefix(raw string) (URL, error) { return parseAnyPath(raw) }

func parseAnyPath(raw string) (URL, error) {
	switch {
	case raw == "":
		return URL{}, invalidURL("it is empty")
	case strings.HasPrefix(raw, "-"):
		return URL{}, invalidURL("it starts with a hyphen")
	case strings.ContainsFunc(raw, unprintable):
		return URL{}, invalidURL("it holds white space or control characters")
	}
	u, err := parseAny(raw)
	if err != nil {
		return URL{}, err
	}
	for what, part := range map[string]string{"user": u.User, "host": u.Host, "path": u.Path} {
		if strings.HasPrefix(part, "-") {
			return URL{}, invalidURL("its " + what + " starts with a hyphen")
		}
	}
	if u.Host == "" {
		return URL{}, invalidURL("it names no host: write https://host/path, ssh://git@host/path or git@host:path")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		// Clients and servers fold them differently, and a path that leads elsewhere would get the credential of where it seems to lead.
		if segment == "." || segment == ".." {
			return URL{}, invalidURL("its path has a . or .. segment")
		}
	}
	return u, nil
}

func parseAny(raw string) (URL, error) {
	if strings.Contains(raw, "://") {
		return parseWithScheme(raw)
	}
	parts := scpLike.FindStringSubmatch(raw)
	// host::path would be a remote helper of that name.
	if parts == nil || strings.HasPrefix(parts[3], ":") {
		return URL{}, invalidURL("it is no URL of a Git repository: write https://host/path, ssh://git@host/path or git@host:path")
	}
	return URL{Scheme: "ssh", User: parts[1], Host: canonicalHost(strings.Trim(parts[2], "[]")), Port: "22", Path: trimSlashes(parts[3])}, nil
}

func parseWithScheme(raw string) (URL, error) {
	parsed, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats the URL, which may hold a password.
		return URL{}, invalidURL("it cannot be parsed")
	}
	if _, has := parsed.User.Password(); has {
		return URL{}, invalidURL("it holds a password: anybody who reads the Workspace would read it")
	}
	if parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" {
		return URL{}, invalidURL("it has a query or a fragment")
	}
	u := URL{Scheme: strings.ToLower(parsed.Scheme), User: parsed.User.Username(), Host: canonicalHost(parsed.Hostname()), Port: parsed.Port()}
	if u.Port == "" {
		u.Port = defaultPorts[u.Scheme]
	}
	if u.Scheme == "http" || u.Scheme == "https" {
		u.Path = trimSlashes(canonicalEscapes(parsed.EscapedPath()))
		return u, nil
	}
	u.Path = trimSlashes(parsed.Path)
	if strings.ContainsAny(u.Path, "\x00\r\n") {
		return URL{}, invalidURL("its path holds control characters")
	}
	// Git strips the slash before a tilde, so that ssh://host/~/x is host:~/x.
	if u.Scheme == "ssh" && strings.HasPrefix(u.Path, "/~") {
		u.Path = u.Path[1:]
	}
	return u, nil
}

// Address is host:port to connect to, and the key under which polls of one host are counted.
func (u URL) Address() string { return net.JoinHostPort(u.Host, u.Port) }

// String is the one spelling of the remote: valid as a URL, without what is default.
func (u URL) String() string {
	host := u.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	user := ""
	if u.User != "" {
		user = url.User(u.User).String() + "@"
	}
	if u.Scheme == "ssh" && u.Path != "" && !strings.HasPrefix(u.Path, "/") && !strings.HasPrefix(u.Path, "~") && u.Port == defaultPorts["ssh"] {
		return user + host + ":" + u.Path
	}
	if u.Port != "" && u.Port != defaultPorts[u.Scheme] {
		host += ":" + u.Port
	}
	path := u.Path
	if u.Scheme != "http" && u.Scheme != "https" {
		path = (&url.URL{Path: path}).EscapedPath()
	}
	return u.Scheme + "://" + user + host + "/" + strings.TrimPrefix(path, "/")
}

func canonicalHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String()
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

func trimSlashes(path string) string {
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		return trimmed
	}
	return path
}

// canonicalEscapes undoes the escapes that no path needs and writes the others in upper case, as RFC 3986 §6.2.2 has it.
func canonicalEscapes(path string) string {
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			out.WriteByte(path[i])
			continue
		}
		escape := path[i : i+3]
		plain, err := url.PathUnescape(escape)
		if err == nil && isUnreserved(plain[0]) {
			out.WriteString(plain)
		} else {
			out.WriteString(strings.ToUpper(escape))
		}
		i += 2
	}
	return out.String()
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func invalidURL(why string) error { return &InvalidError{What: "repository URL", Why: why} }
