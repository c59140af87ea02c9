"""cryptography: keys, signatures, Fernet, hashes; ssl of the system."""
import hashlib
import os

from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa


def signatures():
    key = rsa.generate_private_key(65537, 2048)
    for _ in range(300):
        signature = key.sign(b"text", padding.PKCS1v15(), hashes.SHA256())
        key.public_key().verify(signature, b"text", padding.PKCS1v15(),
                                hashes.SHA256())
    curve = ec.generate_private_key(ec.SECP256R1())
    for _ in range(3000):
        curve.sign(b"text", ec.ECDSA(hashes.SHA256()))


def boxes():
    box = Fernet(Fernet.generate_key())
    for _ in range(6000):
        box.decrypt(box.encrypt(os.urandom(20_000)))


def digests():
    data = os.urandom(200_000)
    for _ in range(800):
        hashlib.sha3_256(data).digest()
    hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 400_000)


signatures()
boxes()
digests()
