package remote

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"magosproject.io/internal/refs"
)

const (
	uploadPack = "git-upload-pack"
	// flush tells the server that nothing will be fetched; it then ends without an error in its log.
	flush = "0000"
)

func (c *Client) listGit(ctx context.Context, url refs.URL, read reader) (refs.Advertised, error) {
	if strings.ContainsRune(url.Path, 0) {
		return nil, errors.New("the path holds a NUL")
	}
	conn, closeConn, err := c.dialer.open(ctx, url.Address())
	if err != nil {
		return nil, err
	}
	defer closeConn()
	if err := pktline.NewEncoder(conn).Encodef("%s %s\x00host=%s\x00", uploadPack, url.Path, hostOf(url)); err != nil {
		return nil, err
	}
	advertised, err := read(conn)
	if err != nil {
		return nil, err
	}
	_, _ = io.WriteString(conn, flush)
	return advertised, nil
}

func hostOf(url refs.URL) string {
	if url.Port == "9418" {
		return url.Host
	}
	return url.Address()
}
