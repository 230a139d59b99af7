package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"

	"github.com/penstock/penstock/domain/catalog"
)

// keyPrefix begins every API key that is made here; prefixLength of its characters are kept to be shown.
const (
	keyPrefix    = "sk-pen-"
	prefixLength = len(keyPrefix) + 4
)

// KeyMade is a new API key. Its secret is in no other answer, ever.
type KeyMade struct {
	ID     string `json:"id"`
	Secret string `json:"secret" doc:"what the client presents; shown this once"`
	Key    any    `json:"key"`
}

type makeInput struct{ Body json.RawMessage }

type makeOutput struct {
	ETag string `header:"ETag"`
	Body KeyMade
}

func (s *Server) keyRoutes() {
	schema := kindOf(catalog.KindKey).schema(s.api.OpenAPI().Components.Schemas)
	huma.Register(s.api, taking(huma.Operation{
		OperationID: "createKey", Method: http.MethodPost, Path: "/api/v1/keys", Tags: []string{"keys"},
		Summary: "Make a key with a secret of its own", DefaultStatus: http.StatusCreated,
		Errors: []int{401, 409, 422}, MaxBodyBytes: bodyMax, SkipValidateBody: true,
	}, schema), s.makeKey)
	huma.Register(s.api, answering(huma.Operation{
		OperationID: "revokeKey", Method: http.MethodPost, Path: "/api/v1/keys/{id}/revoke", Tags: []string{"keys"},
		Summary: "Revoke a key; its next request is refused", Errors: []int{401, 404, 409},
	}, schema), s.revokeKey)
}

// newSecret is "sk-pen-" and 43 characters of base64url: 256 bits of chance.
func newSecret() string {
	var chance [32]byte
	_, _ = rand.Read(chance[:]) // never fails: it ends the program instead
	return keyPrefix + base64.RawURLEncoding.EncodeToString(chance[:])
}

func (s *Server) makeKey(ctx context.Context, in *makeInput) (*makeOutput, error) {
	f, err := parseFields(in.Body)
	if err != nil {
		return nil, err
	}
	if err := f.dropKind(catalog.KindKey); err != nil {
		return nil, err
	}
	if _, ok := f["hash"]; ok {
		return nil, invalid("body.hash", "is made here; PUT /api/v1/keys/{id} imports a key that exists elsewhere")
	}
	document, err := f.document()
	if err != nil {
		return nil, invalid("body", err.Error())
	}
	change, err := s.read(ctx, catalog.KindKey, document, "body")
	if err != nil {
		return nil, err
	}
	secret := newSecret()
	digest := sha256.Sum256([]byte(secret))
	key := change.Resource.(*catalog.Key)
	key.Hash, key.Prefix = "sha256:"+hex.EncodeToString(digest[:]), secret[:prefixLength]
	change.Match = MatchAbsent
	done, err := s.write(ctx, change)
	if isPrecondition(err) {
		return nil, s.problem(ctx, at("body.id"), errors.Mark(errors.Newf("there is a key %s already", change.ID), ErrConflict))
	}
	if err != nil {
		return nil, err
	}
	return &makeOutput{ETag: done.ETag, Body: KeyMade{ID: change.ID, Secret: secret, Key: done.Body}}, nil
}

// isPrecondition says that an answer is the one to a change whose condition did not hold.
func isPrecondition(err error) bool {
	var p *huma.ErrorModel
	return errors.As(err, &p) && p.Status == http.StatusPreconditionFailed
}

// revokeTries bounds how often a revocation starts again because somebody else changed the key meanwhile.
const revokeTries = 5

func (s *Server) revokeKey(ctx context.Context, in *oneInput) (*writeOutput, error) {
	for try := 1; ; try++ {
		found, err := s.ports.Catalog.Get(ctx, catalog.KindKey, in.ID)
		if err != nil {
			return nil, s.problem(ctx, at("path.id"), err)
		}
		revoked := *found.Resource.(*catalog.Key)
		revoked.Revoked = true
		done, err := s.write(ctx, Change{Kind: catalog.KindKey, ID: in.ID, Resource: &revoked, Match: Match(found.Version)})
		if isPrecondition(err) && try < revokeTries {
			continue
		}
		return done, err
	}
}
