"""Pillow: filters, sizes, functions for each pixel, files."""
import io

from PIL import Image, ImageFilter

picture = Image.effect_noise((700, 700), 60).convert("RGB")


def change():
    small = picture.resize((500, 500), Image.Resampling.LANCZOS)
    small = small.filter(ImageFilter.GaussianBlur(4)).rotate(30)
    return small.point(lambda value: 255 - value)


def through_files(image):
    for name in "PNG", "JPEG", "WEBP":
        file = io.BytesIO()
        image.save(file, name)
        Image.open(file).load()


for _ in range(40):
    through_files(change())
