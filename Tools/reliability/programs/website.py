"""Django: object-relational mapping, templates, sqlite3."""
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3",
                           "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField")
django.setup()

from django.contrib.auth.models import User
from django.core.management import call_command
from django.template import engines

TEMPLATE = """{% for user in users %}<p>{{ user.username|upper }}
{{ user.email|default:'x' }} {% if user.is_staff %}s{% endif %}</p>
{% endfor %}"""


def work():
    template = engines["django"].from_string(TEMPLATE)
    User.objects.bulk_create(
        [User(username=f"u{number}", email=f"u{number}@x")
         for number in range(500)])
    for _ in range(120):
        users = list(User.objects.filter(
            username__startswith="u").order_by("email"))
        template.render({"users": users})
        for user in users[:80]:
            User.objects.get(pk=user.pk)


call_command("migrate", verbosity=0)
work()
