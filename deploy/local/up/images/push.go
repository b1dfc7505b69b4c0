package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"magosproject.io/deploy/local/cluster/image"
)

// Push gives a registry, such as registry.example.com/team, every image that it does not have, and returns the images under
// their names there. It logs in with what `docker login` has stored.
func Push(ctx context.Context, registry string, images map[string]Image, progress io.Writer) (map[string]Image, error) {
	pushed := map[string]Image{}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, key := range slices.Sorted(maps.Keys(images)) {
		there := images[key]
		there.Spec.Ref = strings.TrimSuffix(registry, "/") + strings.TrimPrefix(there.Spec.Ref, Registry)
		pushed[key] = there
		tag, err := name.NewTag(there.Ref())
		if err != nil {
			return nil, fmt.Errorf("naming image %s in registry %s: %w", key, registry, err)
		}
		_, err = remote.Head(tag, options...)
		if err == nil {
			continue
		}
		var answer *transport.Error
		if !errors.As(err, &answer) || answer.StatusCode != http.StatusNotFound {
			return nil, fmt.Errorf("asking registry %s for image %s: %w", registry, key, err)
		}
		rendered, err := image.Render(there.Spec)
		if err != nil {
			return nil, err
		}
		if err := remote.Write(tag, rendered, options...); err != nil {
			return nil, fmt.Errorf("pushing image %s: %w", there.Ref(), err)
		}
		_, _ = fmt.Fprintf(progress, "pushed image %s\n", there.Ref())
	}
	return pushed, nil
}
