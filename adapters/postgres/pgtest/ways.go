package pgtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/adapters/postgres/cluster"
)

// OverTLS is the address of a database as one that is reached over TLS only, by clients that verify the server's certificate and name.
func (s *Server) OverTLS(dsn string) string {
	return strings.Replace(dsn, "sslmode=disable", "sslmode=verify-full&sslrootcert="+url.QueryEscape(s.public), 1)
}

// OverUnix is the address of a database as one that is reached through the server's socket in the file system.
func (s *Server) OverUnix(dsn string) string {
	here := fmt.Sprintf("@127.0.0.1:%d/", s.port)
	return strings.Replace(dsn, here, fmt.Sprintf("@:%d/", s.port), 1) + "&host=" + url.QueryEscape(s.files.Folder)
}

// certificate is the server's, signed by itself: the paths of its files.
type certificate struct{ public, private string }

func newCertificate(files *cluster.Cluster) (c certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	now := time.Now()
	wish := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, &wish, &wish, key.Public(), key)
	if err != nil {
		return c, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, err
	}
	if c.public, err = files.Write("server.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})); err != nil {
		return c, err
	}
	c.private, err = files.Write("server.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	return c, err
}
