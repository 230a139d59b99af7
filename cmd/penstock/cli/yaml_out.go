package cli

import (
	"github.com/cockroachdb/errors"
	"github.com/goccy/go-yaml"
)

// resourceYAML writes a resource of the API as a document that apply takes back, its fields in the order of the JSON.
func resourceYAML(resource []byte) ([]byte, error) {
	var fields yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(resource, &fields, yaml.UseOrderedMap()); err != nil {
		return nil, errors.Wrap(err, "read resource")
	}
	b, err := yaml.MarshalWithOptions(fields, yaml.IndentSequence(true))
	return b, errors.Wrap(err, "write resource")
}
